"""Catch-ups that are sent piece by piece: rules G1, G2, G7, X1 on answers larger than the server holds."""

import gzip
import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from running import Server, durable_millstream, millstream, uvicorn_server
from wire.raw_connection import HungUpError, Wire

APPENDS = 50
SERVERS: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    "memory": millstream,
    "log": durable_millstream,
    "asgi": uvicorn_server,
}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with SERVERS[request.param]() as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


def written(wire: Wire, content_type: str, appends: list[bytes]) -> str:
    path = f"/long/{time.monotonic_ns()}"
    assert wire.ask("PUT", path, Content_Type=content_type).status == 201
    for append in appends:
        assert wire.ask("POST", path, append, Content_Type=content_type).status in (200, 204)
    return path


def texts() -> list[bytes]:
    dice = random.Random(1)
    return [dice.randbytes(dice.randrange(1, 200_000)) for _ in range(APPENDS)]


def test_a_long_answer_is_the_stream(wire: Wire) -> None:
    appends = texts()
    path = written(wire, "application/octet-stream", appends)
    answer = wire.ask("GET", f"{path}?offset=-1")
    whole = b"".join(appends)
    assert 2**20 < len(whole) < 8 * 2**20
    assert answer.body == whole
    assert answer.headers["stream-up-to-date"] == "true"
    assert answer.headers["vary"] == "accept-encoding"
    assert wire.ask("GET", f"{path}?offset={answer.headers['stream-next-offset']}").body == b""


def test_a_long_answer_of_json_is_one_array(wire: Wire) -> None:
    rows = [[{"row": row, "text": "x" * (row % 500)} for row in range(100)] for _ in range(APPENDS)]
    path = written(wire, "application/json", [json.dumps(part).encode() for part in rows])
    answer = wire.ask("GET", f"{path}?offset=-1")
    assert json.loads(answer.body) == [row for part in rows for row in part]
    assert answer.headers["stream-up-to-date"] == "true"


def test_many_long_answers_are_the_stream(wire: Wire) -> None:
    """G2: none is longer than the limit, and each begins where the one before ended."""
    appends = [bytes([number]) * 500_000 for number in range(45)]
    path = written(wire, "text/plain", appends)
    content, offset, sizes = b"", "-1", []
    while True:
        answer = wire.ask("GET", f"{path}?offset={offset}")
        content, offset = content + answer.body, answer.headers["stream-next-offset"]
        sizes.append(len(answer.body))
        if "stream-up-to-date" in answer.headers:
            break
    assert content == b"".join(appends)
    assert sizes == [8 * 2**20, 8 * 2**20, 22_500_000 - 16 * 2**20]


def test_until_and_limit_bound_it(wire: Wire) -> None:
    """G7."""
    appends = [b"x" * 100_000] * APPENDS
    path = written(wire, "text/plain", appends)
    limited = wire.ask("GET", f"{path}?offset=-1&limit=3000000")
    assert len(limited.body) == 3_000_000
    until = limited.headers["stream-next-offset"]
    assert len(wire.ask("GET", f"{path}?offset=-1&until={until}").body) == 3_000_000


def test_head_tells_what_get_would(wire: Wire) -> None:
    """X1: the same headers, whether the answer is long or would be compressed."""
    path = written(wire, "text/plain", [b"y" * 100_000] * APPENDS)
    for coding in ("identity", "gzip"):
        got = wire.ask("GET", f"{path}?offset=-1", Accept_Encoding=coding)
        told = wire.ask("HEAD", f"{path}?offset=-1", Accept_Encoding=coding)
        for name in ("stream-next-offset", "etag", "vary", "cache-control", "content-type"):
            assert told.headers.get(name) == got.headers.get(name), (coding, name)


def test_what_is_compressed_is_not_long(wire: Wire) -> None:
    path = written(wire, "text/plain", [b"z" * 100_000] * APPENDS)
    answer = wire.ask("GET", f"{path}?offset=-1", Accept_Encoding="gzip")
    assert len(gzip.decompress(answer.body)) <= 2**20


def test_a_known_long_answer_is_not_sent_again(wire: Wire) -> None:
    """G3."""
    path = written(wire, "text/plain", [b"w" * 100_000] * APPENDS)
    tag = wire.ask("GET", f"{path}?offset=-1").headers["etag"]
    assert wire.ask("GET", f"{path}?offset=-1", If_None_Match=tag).status == 304


def test_requests_behind_a_long_answer_are_answered_after_it(wire: Wire) -> None:
    path = written(wire, "text/plain", [b"v" * 100_000] * APPENDS)
    for _ in range(3):
        wire.request("GET", f"{path}?offset=-1")
    assert [len(wire.answer().body) for _ in range(3)] == [5_000_000] * 3


@pytest.mark.parametrize("server", ["memory", "log"], indirect=True)
def test_a_stream_that_goes_while_it_is_sent_cuts_the_answer(server: Server, wire: Wire) -> None:
    """Better an answer that is cut, which the client sees, than one that is filled with something else."""
    path = written(wire, "text/plain", [b"u" * 500_000] * 16)
    with Wire(server.url) as reader:
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        reader.request("GET", f"{path}?offset=-1")
        status, headers = reader.head()
        assert (status, headers["content-length"]) == (200, "8000000")
        assert wire.ask("DELETE", path).status == 204
        with pytest.raises((HungUpError, ConnectionResetError)):
            reader._exactly(8_000_000)
