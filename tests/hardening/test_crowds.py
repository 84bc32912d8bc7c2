"""Crowds: slow clients, too many clients, clients that only wait. Whoever behaves is served all the same."""

import contextlib
import resource
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from hardening.conftest import needs_files
from running import Server, millstream
from wire.raw_connection import Wire, request

SLOW_CLIENTS = 1_000
IDLE_READERS = 1_000
MAX_READER_BYTES = 4 * 1024
TEXT = {"Content-Type": "text/plain"}


def address(server: Server) -> tuple[str, int]:
    place = urlsplit(server.url)
    return place.hostname or "", place.port or 0


def connect(server: Server, stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(address(server), timeout=20))


def resident_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()
    return int(fields[0]) * 1024


BEGINNINGS = [
    b"",
    b"G",
    b"GET /s HTTP/1.1\r\nHost: h\r\nX-Slow: ",
    b"POST /s HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nx",
    b"POST /s HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
]


def test_a_thousand_slow_clients_do_not_keep_one_from_being_served() -> None:
    """Each has begun a request and goes on with it byte by byte, or not at all."""
    needs_files(SLOW_CLIENTS)
    timeouts = ("--header-timeout-s", "2", "--body-timeout-s", "4")
    with ExitStack() as stack:
        server = stack.enter_context(millstream(*timeouts))
        httpx.put(server.url + "/s", headers=TEXT)
        slow = [connect(server, stack) for _ in range(SLOW_CLIENTS)]
        for number, client in enumerate(slow):
            client.sendall(BEGINNINGS[number % len(BEGINNINGS)])
        began_s = time.monotonic()
        with httpx.Client() as client:
            for number in range(100):
                assert (
                    client.post(server.url + "/s", content=b"%03d" % number, headers=TEXT).status_code == 204
                )
                for dripping in slow[number::100]:
                    with contextlib.suppress(OSError):  # some have been cut off meanwhile
                        dripping.sendall(b"a")
            assert len(client.get(server.url + "/s").content) == 300
        for client in slow:  # and every one of them is cut off in the end
            client.settimeout(max(1.0, began_s + 30 - time.monotonic()))
            with contextlib.suppress(ConnectionResetError):
                while client.recv(4096):
                    pass


def test_one_connection_too_many_is_told_so_and_the_next_is_served() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(millstream("--max-connections", "50"))
        held = [connect(server, stack) for _ in range(50)]
        for client in held:
            client.sendall(request("GET", "/x"))
            assert client.recv(4096).startswith(b"HTTP/1.1 404")
        refused = connect(server, stack).recv(4096)
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"retry-after: " in refused
        held[0].close()
        until_served(server)


@pytest.mark.skipif(sys.platform != "linux", reason="lowers another process's limit, which needs prlimit")
def test_a_server_without_files_left_accepts_again_when_there_are_some() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(millstream())
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (64, 64))
        with ExitStack() as crowd:
            served = 0
            for _ in range(150):
                with contextlib.suppress(OSError):
                    client = connect(server, crowd)
                    client.settimeout(0.2 if served > 20 else 10)
                    client.sendall(request("GET", "/x"))
                    served += client.recv(4096).startswith(b"HTTP/1.1 404")
            assert 20 < served < 64
        until_served(server)
        assert "Traceback" not in server.output()


def until_served(server: Server) -> None:
    """Wait until a newcomer is answered."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(server.url + "/x", timeout=2).status_code == 404:
                return
        time.sleep(0.05)
    raise AssertionError("nobody was served any more")


@pytest.fixture
def readers() -> Iterator[tuple[Server, list[Iterator[bytes]], float]]:
    """A server with many idle event streams, and how many bytes each has cost it."""
    needs_files(IDLE_READERS)
    with ExitStack() as stack:
        server = stack.enter_context(millstream())
        httpx.put(server.url + "/s", headers=TEXT)

        def reader() -> Iterator[bytes]:
            wire = stack.enter_context(Wire(server.url))
            wire.request("GET", "/s?offset=now&live=sse")
            assert wire.head()[0] == 200
            chunks = wire.chunks()
            assert b"event: control" in next(chunks)
            return chunks

        warm = [reader() for _ in range(100)]
        before = resident_bytes(server.pid) if sys.platform == "linux" else 0
        crowd = [reader() for _ in range(IDLE_READERS)]
        grown = resident_bytes(server.pid) - before if sys.platform == "linux" else 0
        yield server, warm + crowd, grown / IDLE_READERS


def test_idle_readers_cost_little_and_miss_nothing(
    readers: tuple[Server, list[Iterator[bytes]], float],
) -> None:
    """10,000 of them are measured by `python -m bench idle-crowd`."""
    server, crowd, bytes_each = readers
    assert bytes_each <= MAX_READER_BYTES, f"{bytes_each / 1024:.1f} KiB for each idle reader"
    httpx.post(server.url + "/s", content=b"to all", headers=TEXT)
    for chunks in crowd:
        assert b"data:to all\n" in next(chunks)
