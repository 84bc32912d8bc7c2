"""Very many streams end at once: others are answered meanwhile (rules F4, X11)."""

import json
from datetime import UTC, datetime, timedelta

from hardening.bystander import Bystander
from running import Server, durable_millstream
from wire.raw_connection import Wire, request

STREAMS = 2_000
TEXT = "text/plain"


def create(server: Server, **headers: str) -> None:
    with Wire(server.url) as wire:
        for first in range(0, STREAMS, 100):
            for number in range(first, first + 100):
                wire.send(request("PUT", f"/many/{number:05}", b"x", Content_Type=TEXT, **headers))
            for _ in range(100):
                assert wire.answer().status == 201


def count(wire: Wire) -> int:
    facts: dict[str, int] = json.loads(wire.ask("GET", "/__ds/server").body)
    return facts["streams"]


def test_streams_that_expire_at_the_same_second_hold_nobody_up() -> None:
    """F4: each is 404 from that second on, and soon after all of them have ended."""
    with durable_millstream() as server:
        ends = datetime.now(UTC) + timedelta(seconds=10)
        create(server, Stream_Expires_At=ends.isoformat(timespec="seconds"))
        with Bystander(server) as bystander, Wire(server.url) as wire:
            while datetime.now(UTC) < ends:
                assert wire.ask("GET", "/many/00001").status in (200, 404)
            for number in (0, STREAMS // 2, STREAMS - 1):
                assert wire.ask("GET", f"/many/{number:05}").status == 404
            while count(wire) > 1:
                pass
        assert bystander.most_work_s < 2


def test_a_deletion_of_a_prefix_holds_nobody_up() -> None:
    """X11."""
    with durable_millstream() as server:
        create(server)
        with Bystander(server) as bystander, Wire(server.url) as wire:
            deleted, cursor = 0, ""
            while cursor is not None:
                page = json.loads(wire.ask("DELETE", f"/__ds/streams?prefix=/many/&cursor={cursor}").body)
                deleted, cursor = deleted + page["deleted"], page["cursor"]
            assert count(wire) == 1
        assert deleted == STREAMS
        assert bystander.most_work_s < 2
