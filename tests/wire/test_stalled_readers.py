"""Readers that do not read: what they may cost, and that they miss nothing."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from millstream.protocol.sse import Parser, parse_control
from running import Server, millstream
from wire.raw_connection import Wire, request

READERS = 5
PIECE = bytes(range(32, 127)) * 1000  # 95 kB
PIECES = 420  # 40 MB


@pytest.fixture
def server() -> Iterator[Server]:
    with millstream() as server:
        yield server


def resident_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()
    return int(fields[0]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_stalled_readers_are_not_held_in_memory(server: Server) -> None:
    """A slow reader's data stays in the store, once for all; a reference server held 47 MiB for each."""
    with ExitStack() as stack:
        writer = stack.enter_context(Wire(server.url))
        append = request("POST", "/s", PIECE)

        def write(readers: list[Wire]) -> int:
            """Write it all to a new stream with these readers, and give the server's memory then."""
            writer.ask("DELETE", "/s")
            writer.ask("PUT", "/s", Content_Type="text/plain")
            for reader in readers:
                reader.request("GET", "/s?offset=-1&live=sse")
                assert reader.head()[0] == 200
            for _ in range(PIECES):
                writer.send(append)
                assert writer.answer().status == 204
            return resident_bytes(server.pid)

        write([])
        alone = write([])
        readers = [stack.enter_context(Wire(server.url)) for _ in range(READERS)]
        grown = write(readers) - alone
        assert grown < (READERS + 3) * 2**20, f"{grown / 2**20:.1f} MiB for {READERS} stalled readers"

        # And each goes on where it was, as if nothing had happened.
        for reader in readers[:2]:
            parser, size, offset = Parser(), 0, ""
            for chunk in reader.chunks():
                for event in parser.feed(chunk):
                    if event.type == "data":
                        size += len(event.data)
                    else:
                        offset = parse_control(event.data).stream_next_offset
                if size >= PIECES * len(PIECE):
                    break
            assert size == PIECES * len(PIECE)
            assert offset <= writer.ask("HEAD", "/s").headers["stream-next-offset"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_stalled_readers_of_many_streams_are_not_held_in_memory(server: Server) -> None:
    """X9: a reader that is behind holds at most 1 MiB in all, however many streams it follows."""
    names = [f"/many/{number}" for number in range(100)]
    with ExitStack() as stack:
        writer = stack.enter_context(Wire(server.url))
        appends = [request("POST", name, PIECE) for name in names]

        def write(readers: list[Wire]) -> int:
            """Write it all to new streams with these readers, and give the server's memory then."""
            for name in names:
                writer.ask("DELETE", name)
                writer.ask("PUT", name, Content_Type="text/plain")
            for reader in readers:
                reader.request("GET", "/__ds/events?glob=/many/*&from=-1")
                assert reader.head()[0] == 200
            for number in range(PIECES):
                writer.send(appends[number % len(appends)])
                assert writer.answer().status == 204
            return resident_bytes(server.pid)

        write([])
        alone = write([])
        readers = [stack.enter_context(Wire(server.url)) for _ in range(READERS)]
        grown = write(readers) - alone
        shared = 16 * 2**20  # events that are kept for all readers together
        assert grown < READERS * 2**20 + shared, f"{grown / 2**20:.1f} MiB for {READERS} stalled readers"

        for reader in readers[:2]:
            parser, found = Parser(), dict.fromkeys(names, 0)
            for chunk in reader.chunks():
                for event in parser.feed(chunk):
                    if event.type == "data":
                        found[event.id.rpartition("@")[0]] += len(event.data)
                if sum(found.values()) >= PIECES * len(PIECE):
                    break
            assert sum(found.values()) == PIECES * len(PIECE)


def test_a_reader_that_was_cut_off_resumes_by_offset(server: Server) -> None:
    """L5: whatever of the events it has read, the next offset tells what is missing."""
    with Wire(server.url) as writer:
        writer.ask("PUT", "/s", Content_Type="text/plain")
        for _ in range(30):
            writer.ask("POST", "/s", PIECE)
        writer.ask("POST", "/s", Stream_Closed="true")
        text, offset, closed = "", "-1", False
        while not closed:
            with Wire(server.url) as reader:
                reader.request("GET", f"/s?offset={offset}&live=sse")
                reader.head()
                pending = ""
                for number, event in enumerate(reader.events()):
                    if event.type == "data":
                        pending = event.data
                    else:
                        control = parse_control(event.data)
                        text, offset, closed = (
                            text + pending,
                            control.stream_next_offset,
                            control.stream_closed,
                        )
                        pending = ""
                    if number == 2:
                        break  # hang up in the middle: a data event without its control
        assert text == PIECE.decode() * 30
