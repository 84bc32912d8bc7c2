"""Ever new producers: a stream remembers a limited number of them, and others go on (rule H4)."""

import json
from pathlib import Path

from hardening.bystander import Bystander
from running import millstream
from wire.raw_connection import Answer, Wire, request

LIMIT = 1_000
ATTEMPTS = 3_000


def post(wire: Wire, id: str, seq: int = 0) -> None:
    wire.send(request("POST", "/s", b"x", Producer_Id=id, Producer_Epoch="0", Producer_Seq=str(seq)))


def code(answer: Answer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["code"]


def test_a_producer_id_is_short() -> None:
    with millstream() as server, Wire(server.url) as wire:
        wire.ask("PUT", "/s", b"")
        post(wire, "p" * 257)
        assert code(wire.answer()) == (400, "PRODUCER_ID_TOO_LONG")
        post(wire, "p" * 256)
        assert wire.answer().status == 200
        assert wire.ask("GET", "/s").body == b"x"


def test_ever_new_producers_are_refused_and_the_server_starts_again(tmp_path: Path) -> None:
    settings = ("--store", "log", "--data", str(tmp_path), "--max-producers-per-stream", str(LIMIT))
    with millstream(*settings) as server, Bystander(server), Wire(server.url) as wire:
        wire.ask("PUT", "/s", b"")
        statuses = []
        for number in range(ATTEMPTS):
            post(wire, f"{number:0256d}")
            answer = wire.answer()
            statuses.append(answer.status)
        assert statuses == [200] * LIMIT + [403] * (ATTEMPTS - LIMIT)
        assert code(answer) == (403, "TOO_MANY_PRODUCERS")
        post(wire, f"{0:0256d}", 1)
        assert wire.answer().status == 200, "a producer that is known goes on"
    with millstream(*settings) as server, Wire(server.url) as wire:
        post(wire, f"{0:0256d}", 1)
        assert wire.answer().status == 204, "and is still known"
        post(wire, f"{LIMIT - 1:0256d}", 0)
        assert wire.answer().status == 204
        assert wire.ask("GET", "/s").body == b"x" * (LIMIT + 1)
