"""Clients that keep the server waiting, and for how long it waits for them."""

import socket
import struct

import pytest

from millstream.server.http.connection import _LINGER_S
from wire.inprocess import Client, Served, run, serving, until
from wire.raw_connection import request

HEADERS_S, BODY_S, IDLE_S = 10.0, 30.0, 75.0
CREATE = request("PUT", "/s", b"", Content_Length="0")
WAIT = request("GET", "/s?offset=-1&live=long-poll")
WATCH = request("GET", "/s?offset=-1&live=sse")


def received(served: Served) -> int:
    """How many bytes of an unfinished request the server has seen."""
    return sum(
        connection._parser.head_bytes + connection._parser.body_bytes
        for connection in served.native.connections
    )


async def with_stream(served: Served) -> Client:
    """A client that has created /s and whose connection is idle now."""
    client = await served.connect()
    client.send(CREATE)
    assert await client.status() == 201
    return client


@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
def test_a_request_whose_headers_do_not_end_is_given_up(first: bool) -> None:
    """Whether they drip or not, and whether or not the connection was used before."""

    async def main() -> None:
        async with serving() as served:
            client = await served.connect() if first else await with_stream(served)
            served.pass_time(0.1)
            for count in range(1, 10):
                client.send(b"GET /long"[count - 1 : count])
                await until(lambda count=count: received(served) == count)
                served.pass_time(1.0)
            assert len(served.native.connections) == 1
            served.pass_time(2.0)
            assert await client.status() == 408
            assert b"TIMEOUT" in await client.rest()

    run(main())


def test_a_connection_without_a_request_is_closed_without_a_word() -> None:
    async def main() -> None:
        async with serving() as served:
            client = await served.connect()
            served.pass_time(HEADERS_S + 0.1)
            served.pass_time(0.0)
            served.pass_time(_LINGER_S + 0.1)
            assert await client.rest() == b""

    run(main())


def test_a_body_that_stalls_is_given_up_and_one_that_moves_is_not() -> None:
    async def main() -> None:
        async with serving(min_body_bytes_per_s=10) as served:
            client = await with_stream(served)
            client.send(request("POST", "/s", b"", Content_Length="10000"))
            await until(lambda: any(connection._parser.in_body for connection in served.native.connections))
            for count in range(1, 5):
                client.send(b"x" * 300)
                await until(lambda count=count: received(served) == 300 * count)
                served.pass_time(BODY_S - 1)
            served.pass_time(2.0)
            assert await client.status() == 408

    run(main())


@pytest.mark.parametrize("rate", [0, 1, 10])
def test_a_body_that_drips_is_given_up_unless_no_rate_is_demanded(rate: int) -> None:
    """A byte every 29 seconds is less than one a second."""

    async def main() -> None:
        async with serving(min_body_bytes_per_s=rate) as served:
            client = await with_stream(served)
            client.send(request("POST", "/s", b"", Content_Length="100"))
            await until(lambda: any(connection._parser.in_body for connection in served.native.connections))
            client.send(b"x")
            await until(lambda: received(served) == 1)
            served.pass_time(BODY_S - 1)
            if rate:
                served.pass_time(2.0)
                assert await client.status() == 408
                return
            for count in range(2, 6):
                client.send(b"x")
                await until(lambda count=count: received(served) == count)
                served.pass_time(BODY_S - 1)
            client.send(b"x" * 95)
            assert await client.status() == 204

    run(main())


def test_an_idle_connection_is_closed_in_time() -> None:
    async def main() -> None:
        async with serving() as served:
            client = await with_stream(served)
            served.pass_time(IDLE_S - 1)
            client.send(request("HEAD", "/s"))
            assert await client.status() == 200
            served.pass_time(IDLE_S - 1)
            client.send(request("HEAD", "/s"))
            assert await client.status() == 200
            served.pass_time(IDLE_S + 0.1)
            assert await client.rest() == b""

    run(main())


@pytest.mark.parametrize("wait", [WAIT, WATCH], ids=["long-poll", "sse"])
def test_a_client_that_waits_is_not_a_client_that_keeps_us_waiting(wait: bytes) -> None:
    """Also when it has begun to send its next request, which must not be refused out of turn."""

    async def main() -> None:
        async with serving() as served:
            client = await with_stream(served)
            client.send(wait + request("POST", "/s", b"", Content_Length="5") + b"he")
            await until(lambda: bool(served.live.polls or served.live.feeds) and received(served) == 2)
            served.pass_time(10 * IDLE_S)
            assert len(served.native.connections) == 1
            served.live.drain()
            head = await client.head()
            assert head.startswith((b"HTTP/1.1 204", b"HTTP/1.1 200"))
            if wait is WATCH:
                assert b"HTTP/1.1 408" not in await client.reader.readuntil(b"0\r\n\r\n")
            client.send(b"llo")
            assert await client.status() == 204

    run(main())


def test_a_body_behind_a_waiting_request_may_stall_no_longer_than_any_other() -> None:
    async def main() -> None:
        async with serving() as served:
            client = await with_stream(served)
            client.send(WAIT + request("POST", "/s", b"", Content_Length="5") + b"he")
            await until(lambda: bool(served.live.polls) and received(served) == 2)
            served.live.drain()
            assert await client.status() == 204
            served.pass_time(BODY_S + 1)
            assert await client.status() == 408

    run(main())


# -- Clients that are gone -----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "reset", "half-close"])
@pytest.mark.parametrize("wait", [WAIT, WATCH], ids=["long-poll", "sse"])
def test_a_client_that_leaves_frees_its_place(wait: bytes, how: str) -> None:
    """L6: nothing is kept for it, neither a reader nor a connection."""

    async def main() -> None:
        async with serving() as served:
            client = await with_stream(served)
            client.send(wait)
            await until(lambda: bool(served.live.polls or served.live.feeds))
            if how == "reset":
                linger_not = struct.pack("ii", 1, 0)
                client.writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger_not
                )
                client.writer.transport.abort()
            elif how == "close":
                client.writer.close()
            else:
                client.writer.write_eof()
            if how != "reset":
                # It may be gone already: what is written to a closed connection resets it.
                alive = served.native.connections
                await until(lambda: not alive or any(c._deadline_s for c in alive))
                served.pass_time(_LINGER_S + 0.1)
            await until(lambda: not served.native.connections)
            assert not served.live.polls
            assert not served.live.feeds
            assert not served.live.hub.readers

    run(main())


async def stalled(served: Served) -> Client:
    """A client that asks for much and reads nothing."""
    client = await with_stream(served)
    client.send(request("POST", "/s", bytes(4_000_000)))
    assert await client.status() == 204
    client.writer.transport.pause_reading()
    client.send(request("GET", "/s") * 16)
    await until(lambda: any(not connection.writable for connection in served.native.connections))
    return client


def test_a_client_that_does_not_read_its_answer_is_dropped() -> None:
    async def main() -> None:
        async with serving(max_chunk_bytes=4_000_000) as served:
            await stalled(served)
            for _ in range(4):
                served.pass_time(IDLE_S + 1)
            await until(lambda: not served.native.connections)

    run(main())


def test_a_client_that_reads_its_answer_slowly_is_not() -> None:
    async def main() -> None:
        async with serving(max_chunk_bytes=4_000_000) as served:
            client = await stalled(served)
            [connection] = served.native.connections
            client.writer.transport.resume_reading()
            for _ in range(6):
                unsent = connection._transport.get_write_buffer_size()
                while connection._transport.get_write_buffer_size() >= unsent > 0:
                    await client.reader.read(65536)
                served.pass_time(IDLE_S + 1)
                assert served.native.connections == {connection}

    run(main())


def test_a_client_that_asks_for_too_much_at_once_is_not_read_from() -> None:
    """Bodies behind a waiting request are held in memory, so there is a limit to them together."""

    async def main() -> None:
        async with serving(max_body_bytes=1_000_000) as served:
            client = await with_stream(served)
            client.send(WAIT)
            post = request("POST", "/s", bytes(900_000))
            for _ in range(30):
                client.send(post)
            [connection] = served.native.connections
            await until(lambda: connection._parser.is_full)
            for _ in range(50):
                await until(lambda: True)
            parser = connection._parser
            held = sum(len(request.body) for request in parser.requests) + parser.body_bytes
            assert held < 4_000_000
            served.live.drain()
            assert [await client.status() for _ in range(31)] == [204] * 31

    run(main())


def test_a_held_up_event_loop_takes_no_time_from_clients() -> None:
    """A request that has arrived in part meanwhile is answered; so is one that was refused by its head."""

    async def main() -> None:
        async with serving(max_body_bytes=1000) as served:
            client, large = await with_stream(served), await served.connect()
            client.send(b"GET /s?offset=-1 ")
            await until(lambda: received(served) > 0)
            large.send(request("POST", "/s", b"", Content_Length="1000000") + b"x")
            await until(lambda: any(connection._closing for connection in served.native.connections))
            served.hold_up(100.0)
            assert len(served.native.connections) == 2
            client.send(b"HTTP/1.1\r\nHost: h\r\n\r\n")
            assert await client.status() == 200
            large.send(b"x" * 10_000)
            assert await large.status() == 413
            served.pass_time(_LINGER_S + 1)
            await until(lambda: len(served.native.connections) == 1)

    run(main())
