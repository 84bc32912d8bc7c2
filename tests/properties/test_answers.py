"""Answers do not depend on who parsed the requests, nor on how their bytes are cut."""

import asyncio
import itertools
import re
from typing import cast

import uvloop
from hypothesis import given
from hypothesis import strategies as st

from millstream.server.http.connection import Connection
from millstream.server.http.server import NativeServer
from millstream.server.request import Request
from millstream.server.run import running_routes
from millstream.server.settings import Settings
from millstream.store.memory import memory_store
from unit.server.http.llhttp_only import LlhttpOnly

_HOST = b"Host: localhost\r\n"
_TYPE = b"Content-Type: text/plain\r\n"
_JSON = b"Content-Type: application/json\r\n"
_PRODUCER = b"Producer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: 0\r\n"
_EXPECTED = b"Stream-Expected-Offset: 0000000000000000_0000000000000003\r\n"
_REQUESTS = [
    b"GET /s HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET /s?offset=now HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"HEAD /s HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + b"Content-Length: 3\r\n\r\nabc",
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + b"Content-Length: 4\r\n\r\n\r\n\r\n",
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + b"Content-Length: 0\r\n\r\n",
    b"POST /s HTTP/1.1\r\n" + _HOST + b"Content-Length: 3\r\n\r\nabc",
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + _EXPECTED + b"Content-Length: 3\r\n\r\nabc",
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + b"If-Match: x\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + b"Stream-Seq: 7\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + _PRODUCER + b"Content-Length: 3\r\n\r\nabc",
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + b"Producer-Id: p\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /j HTTP/1.1\r\n" + _HOST + _JSON + b"Content-Length: 5\r\n\r\n[1,2]",
    b"POST /j HTTP/1.1\r\n" + _HOST + _JSON + b"Content-Length: 5\r\n\r\n[1,2,",
    b"POST /j HTTP/1.1\r\n" + _HOST + _TYPE + b"Content-Length: 5\r\n\r\n[1,2]",
    b"POST /none HTTP/1.1\r\n" + _HOST + _JSON + b"Content-Length: 5\r\n\r\n[1,2,",
    b"GET /s?offset=-1 HTTP/1.1\r\n" + _HOST + b"If-None-Match: *\r\n\r\n",
    b"GET /s?offset=-1 HTTP/1.1\r\n" + _HOST + b"Authorization: Bearer x\r\n\r\n",
    b"GET /s?offset=what HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET /%zz HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET /__ds/nothing HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + b"Stream-Closed: true\r\nContent-Length: 1\r\n\r\n!",
    # These are for llhttp.
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    # Begun, and never ended: what follows belongs to it, although it looks like a request.
    b"GET /s HTTP/1.1\r\n" + _HOST + b"X: ",
    b"POST /s HTTP/1.1\r\n" + _HOST + _TYPE + b"Content-Length: 60\r\n\r\n",
    b"\r\n",
]


class Recorder:
    """A client's end that keeps what it is sent."""

    def __init__(self) -> None:
        self.received = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.received += data

    def close(self) -> None:
        self.is_closed = True

    def write_eof(self) -> None:
        self.is_closed = True

    def can_write_eof(self) -> bool:
        return True

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


async def _answers(packets: list[bytes], *, only_llhttp: bool) -> tuple[bytes, bool]:
    async with running_routes(Settings(store="memory"), memory_store()) as routes:
        for name, content_type in ((b"/s", b"text/plain"), (b"/j", b"application/json")):
            routes.handle(Request(b"PUT", name, b"", {b"content-type": content_type}, b""))
        server = NativeServer(routes, scheme=b"http")
        connection = Connection(server, asyncio.get_running_loop())
        client = Recorder()
        connection.connection_made(cast(asyncio.Transport, client))
        if only_llhttp:
            connection._parser = LlhttpOnly(server.settings, server.scheme, b"127.0.0.1")
        for packet in packets:
            connection.data_received(packet)
            while connection._parser.requests:  # noqa: ASYNC110  it answers one each turn of the loop
                await asyncio.sleep(0)
        return re.sub(
            rb"(date|etag|stream-cursor|stream-incarnation|stream-(first|last)-time): [^\r]*\r\n",
            b"",
            client.received,
        ), client.is_closed


@given(
    sent=st.lists(st.sampled_from(_REQUESTS), min_size=1, max_size=12),
    cuts=st.lists(st.integers(min_value=0, max_value=1500), max_size=6),
    by_request=st.booleans(),
)
def test_answers_do_not_depend_on_the_parser(sent: list[bytes], cuts: list[int], by_request: bool) -> None:
    packets = sent if by_request else _cut(b"".join(sent), cuts)
    ours = uvloop.run(_answers(packets, only_llhttp=False))
    assert ours == uvloop.run(_answers(packets, only_llhttp=True))


def _cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(places) if end > start]
