"""Whatever 200 connections do, a server with default settings needs less than 300 MiB, and serves others.

Attacks of a kind follow each other on one server: what one of them leaves behind counts for the next.
"""

import base64
import contextlib
import gzip
import random
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import pytest

from hardening.bystander import Bystander
from millstream.protocol.offsets import format_offset
from running import Server, durable_millstream
from wire.raw_connection import Wire, request

MIB = 2**20
CLIENTS = 200
MAX_BYTES = 300 * MIB
MOST_WORK_S = 2.0
BODY_BYTES = 15 * MIB
STEP_BYTES = MIB
SETTLE_S = 1.0
ATTACK_S = 5.0
FRAMED_BYTES = 256  # of a body in small chunks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with durable_millstream() as server:
        yield server


@contextlib.contextmanager
def attacked(server: Server, what: str, *, appends: bool = True) -> Iterator[ExitStack]:
    """Run an attack beside a bystander, and check how much memory the server needed for it."""
    with Bystander(server, appends=appends) as bystander, ExitStack() as stack:
        yield stack
        time.sleep(SETTLE_S)  # the server goes on reading, and writing to who does not read
    peak = bystander.peak_bytes
    print(f"{what}: peak of {peak / MIB:.0f} MiB")
    assert peak < MAX_BYTES, f"{peak / MIB:.0f} MiB"
    assert bystander.most_work_s < MOST_WORK_S


# -- Large appends, all at once ------------------------------------------------------------------

EVENTS = b"[%b]" % b",".join(b'{"id":%d,"text":"%b"}' % (n, b"x" * 80) for n in range(150_000))


def append_events(server: Server, number: int) -> None:
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    json = {"Content-Type": "application/json"}
    for method, body in (("PUT", b""), ("POST", EVENTS)):
        with contextlib.suppress(OSError, HTTPException):  # most are refused before they are sent
            connection.request(method, f"/events/{number}", body, json)
            connection.getresponse().read()
    connection.close()


def test_large_appends_of_all_at_once(server: Server) -> None:
    with attacked(server, "large appends", appends=False), ThreadPoolExecutor(CLIENTS) as clients:
        for number in range(CLIENTS):
            clients.submit(append_events, server, number)


# -- Bodies that stall ---------------------------------------------------------------------------

NOISE = random.Random(17).randbytes(BODY_BYTES)
FRAME = b"%x\r\n%b\r\n" % (FRAMED_BYTES, bytes(FRAMED_BYTES))
BODIES: dict[str, tuple[bytes, dict[str, str]]] = {
    "plain": (NOISE, {"Content_Length": str(16 * MIB)}),
    "small chunks": (FRAME * (BODY_BYTES // FRAMED_BYTES), {"Transfer_Encoding": "chunked"}),
    "compressed": (gzip.compress(NOISE, 1), {"Content_Length": str(16 * MIB), "Content_Encoding": "gzip"}),
}


@pytest.mark.parametrize("which", BODIES)
def test_bodies_that_stall(server: Server, which: str) -> None:
    """All grow as fast as they are read, until they are refused or stall a little before their end."""
    body, headers = BODIES[which]
    with attacked(server, which) as stack:
        wires = [stack.enter_context(Wire(server.url)) for _ in range(CLIENTS)]
        assert wires[0].ask("PUT", "/bodies", Content_Type="text/plain").status in (200, 201)
        for wire in wires:
            wire.send(request("POST", "/bodies", Content_Type="text/plain", **headers))
        unsent = {wire: memoryview(body) for wire in wires}
        end_s = time.monotonic() + ATTACK_S
        while any(unsent.values()) and time.monotonic() < end_s:
            for wire, rest in list(unsent.items()):
                if rest and (sent := send_some(wire, rest[:STEP_BYTES])) is None:
                    del unsent[wire]
                elif rest and sent:
                    unsent[wire] = rest[sent:]
        assert unsent, "nobody was left"


def test_compressed_bodies_that_grow(server: Server) -> None:
    """Each is small, 15 MiB when it is decoded, and then refused for its checksum."""
    body = gzip.compress(random.Random(1).randbytes(4096) * (BODY_BYTES // 4096))
    with attacked(server, "compressed, complete") as stack:
        wires = [stack.enter_context(Wire(server.url)) for _ in range(CLIENTS)]
        for wire in wires:
            wire.request("POST", "/bodies", body[:-8] + bytes(8), Content_Encoding="gzip")
        for wire in wires:
            wire.socket.settimeout(60)
            assert wire.answer().status == 400


def send_some(wire: Wire, data: memoryview) -> int | None:
    """Send more of a body, as much as the server reads; None when it has refused the body and hung up."""
    wire.socket.setblocking(False)
    try:
        return wire.socket.send(data)
    except BlockingIOError:
        return 0
    except ConnectionError:
        return None


# -- Readers that stall --------------------------------------------------------------------------

STREAM_BYTES = 64 * MIB
APPENDED_BYTES = 4 * MIB
CONTENT = {
    "text": ("text/plain", base64.b64encode(NOISE)[:APPENDED_BYTES]),
    "line breaks": ("text/plain", b"\n" * APPENDED_BYTES),
    "binary": ("application/octet-stream", NOISE[:APPENDED_BYTES]),
}


@contextlib.contextmanager
def filled(server: Server, name: str, kind: str, data: bytes, times: int) -> Iterator[str]:
    """A stream that is still in memory when it is read, at least in part; deleted afterwards."""
    insist(server, "PUT", name, b"", kind)
    for _ in range(times):
        insist(server, "POST", name, data, kind)
    try:
        yield name
    finally:
        insist(server, "DELETE", name, b"", kind)


def insist(server: Server, method: str, name: str, body: bytes, kind: str) -> None:
    """Send a request until the server has room for it."""
    status = 503
    while status == 503:
        with Wire(server.url) as wire:
            wire.socket.settimeout(60)
            status = wire.ask(method, name, body, Content_Type=kind).status
        if status == 503:
            time.sleep(0.1)
    assert status in (201, 204)


@pytest.fixture(scope="module", params=CONTENT)
def stream(server: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    kind, data = CONTENT[request.param]
    name = f"/{request.param.replace(' ', '-')}"
    with filled(server, name, kind, data, STREAM_BYTES // APPENDED_BYTES) as name:
        yield name


@pytest.mark.parametrize("mode", ["live=sse", "", "limit=1000000", "live=long-poll"])
@pytest.mark.parametrize("accepts", ["identity", "gzip"])
def test_readers_that_stall(server: Server, stream: str, mode: str, accepts: str) -> None:
    """Each begins elsewhere, so that no two can share what is sent."""
    if mode == "live=sse" and accepts == "gzip":
        pytest.skip("events are not compressed")
    with attacked(server, f"{stream}, {mode}, {accepts}") as stack:
        for number in range(CLIENTS):
            offset = format_offset(number * STREAM_BYTES // (2 * CLIENTS)).decode()
            target = f"{stream}?offset={offset}&{mode}"
            reader = stack.enter_context(unread(server))
            reader.sendall(request("GET", target, Accept_Encoding=accepts))


MESSAGES = 4


@pytest.fixture(scope="module")
def fresh() -> Iterator[Server]:
    with durable_millstream() as server:
        yield server


@pytest.mark.parametrize("mode", ["live=sse", "", "live=long-poll"])
@pytest.mark.parametrize("accepts", ["identity", "gzip"])
def test_readers_that_stall_in_one_long_message(fresh: Server, mode: str, accepts: str) -> None:
    message = b'"%b"' % base64.b64encode(NOISE)[: BODY_BYTES - 2]
    with (
        filled(fresh, "/long", "application/json", message, MESSAGES),
        attacked(fresh, f"one long message, {mode}, {accepts}") as stack,
    ):
        for number in range(CLIENTS):
            offset = format_offset(number % MESSAGES * (len(message) + 1)).decode()
            reader = stack.enter_context(unread(fresh))
            reader.sendall(request("GET", f"/long?offset={offset}&{mode}", Accept_Encoding=accepts))


def unread(server: Server) -> socket.socket:
    """A connection whose client takes almost nothing."""
    place = urlsplit(server.url)
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect((place.hostname, place.port))
    return reader
