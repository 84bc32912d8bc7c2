"""Listings that are made to take long: a page is short, and others are answered meanwhile (rule X2)."""

import json

from hardening.bystander import Bystander
from running import millstream
from wire.raw_connection import Wire, request

STREAMS = 2_000
DEPTH = 500
WORST = "**/" + "*a/" * 330 + "b"  # every segment matches, until the last


def test_a_hostile_glob_holds_nobody_up() -> None:
    with millstream() as server, Wire(server.url) as wire:
        for first in range(0, STREAMS, 100):
            for number in range(first, first + 100):
                wire.send(request("PUT", f"/{number}" + "/a" * DEPTH, b""))
            for _ in range(100):
                assert wire.answer().status == 201
        with Bystander(server) as bystander:
            cursor, pages = "", 0
            while cursor is not None and pages < 50:
                answer = wire.ask("GET", f"/__ds/streams?glob={WORST}&cursor={cursor}")
                assert answer.status == 200
                page = json.loads(answer.body)
                assert page["streams"] == []
                cursor, pages = page["cursor"], pages + 1
        assert pages > 1, "a page has all of the time that it needs"
        assert bystander.most_work_s < 2  # it was 39 s for one request


def test_a_glob_is_no_longer_than_a_name() -> None:
    with millstream() as server, Wire(server.url) as wire:
        assert wire.ask("GET", f"/__ds/streams?glob={'a' * 1024}").status == 200
        answer = wire.ask("GET", f"/__ds/streams?glob={'a' * 1025}")
        assert (answer.status, json.loads(answer.body)["code"]) == (400, "GLOB_TOO_LONG")


def test_all_pages_together_have_every_stream() -> None:
    with millstream() as server, Wire(server.url) as wire:
        for number in range(500):
            assert wire.ask("PUT", f"/s/{number:03d}", b"").status == 201
        names, cursor = [], ""
        while cursor is not None:
            page = json.loads(wire.ask("GET", f"/__ds/streams?glob=/s/*&limit=70&cursor={cursor}").body)
            names += [stream["path"] for stream in page["streams"]]
            cursor = page["cursor"]
        assert names == [f"/s/{number:03d}" for number in range(500)]
