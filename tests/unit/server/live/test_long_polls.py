"""Long-polls: rules L1 to L3, L6, G2, G7."""

import asyncio
import json

import pytest

from millstream.protocol import cursors
from millstream.protocol.offsets import format_offset
from unit.server.bench import Bench, bench_with_stream, header, turn

START = format_offset(0).decode()


def test_a_long_poll_is_answered_by_the_next_append() -> None:
    """L2."""

    async def main() -> None:
        bench = bench_with_stream()
        polls = [bench.wait("/s?offset=-1&live=long-poll") for _ in range(3)]
        bench.reply("POST", "/s", b"hello")
        for poll in polls:
            reply = await poll
            assert (reply.status, reply.body) == (200, b"hello")
            assert header(reply, "stream-up-to-date") == "true"
            assert header(reply, "stream-cursor") == str(cursors.current_cursor(bench.now_ms))
        assert not bench.live.polls
        assert not bench.live.hub.readers

    asyncio.run(main())


def test_a_burst_of_appends_is_one_answer() -> None:
    """L2."""

    async def main() -> None:
        bench = bench_with_stream()
        poll = bench.wait("/s?offset=-1&live=long-poll")
        for letter in b"hello":
            bench.reply("POST", "/s", bytes([letter]))
        assert (await poll).body == b"hello"

    asyncio.run(main())


def test_a_long_poll_gives_up_after_a_while() -> None:
    """L1, L2, L3."""

    async def main() -> None:
        bench = bench_with_stream(long_poll_timeout_ms=20)
        reply = await bench.wait("/s?offset=-1&live=long-poll")
        assert (reply.status, reply.body) == (204, b"")
        assert header(reply, "stream-next-offset") == START
        assert header(reply, "stream-up-to-date") == "true"
        assert header(reply, "cache-control") == "no-store"
        assert header(reply, "stream-cursor") == str(cursors.current_cursor(bench.now_ms))

    asyncio.run(main())


@pytest.mark.parametrize("ahead", [0, 1, 500])
def test_a_client_never_gets_its_own_cursor_back(ahead: int) -> None:
    """L3."""

    async def main() -> None:
        bench = bench_with_stream(long_poll_timeout_ms=1)
        cursor = cursors.current_cursor(bench.now_ms) + ahead
        reply = await bench.wait(f"/s?offset=-1&live=long-poll&cursor={cursor}")
        assert int(header(reply, "stream-cursor") or 0) > cursor
        sink = bench.watch(f"/s?offset=-1&live=sse&cursor={cursor}")
        [control] = sink.take()
        assert int(json.loads(control.data)["streamCursor"]) > cursor

    asyncio.run(main())


def test_a_closed_stream_answers_at_once() -> None:
    """L2, L5."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", b"all", stream_closed="true")
        reply = bench.reply("GET", "/s?offset=now&live=long-poll")
        assert (reply.status, header(reply, "stream-closed")) == (204, "true")
        assert bench.reply("GET", "/s?offset=-1&live=long-poll").body == b"all"
        sink = bench.watch("/s?offset=-1&live=sse")
        assert [event.type for event in sink.take()] == ["data", "control"]
        assert sink.finished

    asyncio.run(main())


def test_what_was_waited_for_from_now_is_not_for_caches() -> None:
    """G2, G6: the same URL means another place a moment later."""

    async def main() -> None:
        bench = bench_with_stream()
        poll = bench.wait("/s?offset=now&live=long-poll")
        bench.reply("POST", "/s", b"hello")
        reply = await poll
        assert (reply.status, reply.body) == (200, b"hello")
        assert header(reply, "cache-control") == "no-store"
        assert header(reply, "etag") is None

    asyncio.run(main())


def test_a_bounded_long_poll_does_not_wait_beyond_its_bound() -> None:
    """G7: there is nothing before that offset to wait for, and the reader is not up to date."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", b"hello")
        bound = format_offset(3).decode()
        reply = bench.reply("GET", f"/s?offset={bound}&until={bound}&live=long-poll")
        assert (reply.status, reply.body) == (200, b"")
        assert header(reply, "stream-next-offset") == bound
        assert header(reply, "stream-up-to-date") is None
        assert bench.reply("GET", f"/s?offset=-1&until={bound}&live=long-poll").body == b"hel"

    asyncio.run(main())


def test_a_reader_that_is_gone_is_forgotten() -> None:
    """L6."""

    async def main() -> None:
        bench = bench_with_stream()
        poll = bench.wait("/s?offset=-1&live=long-poll")
        poll.abandon()
        bench.reply("POST", "/s", b"x")
        await turn()
        assert not bench.live.polls
        assert not bench.live.hub.readers

    asyncio.run(main())
