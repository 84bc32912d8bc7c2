"""Waiting for a stream to grow: rules L1 to L7, F3, F4, G2, G7, G8."""

import asyncio
import json
from collections.abc import Callable

import pytest

from millstream.protocol import cursors
from millstream.protocol.offsets import format_offset
from millstream.server.live.readers import KEEP_ALIVE_S, EventFeed
from unit.server.bench import Bench, Sink, header, turn

START = format_offset(0).decode()


def bench_with_stream(**settings: object) -> Bench:
    bench = Bench(**settings)
    assert bench.reply("PUT", "/s", content_type="text/plain").status == 201
    return bench


# -- Long-poll -----------------------------------------------------------------------------------


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
        assert not bench.live.hub._readers

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


ENDS: dict[str, tuple[Callable[[Bench], object], int]] = {
    "closed": (lambda bench: bench.reply("POST", "/s", stream_closed="true"), 204),
    "appended to and closed": (lambda bench: bench.reply("POST", "/s", b"x", stream_closed="true"), 200),
    "deleted": (lambda bench: bench.reply("DELETE", "/s"), 404),
    "deleted, with a fork": (
        lambda bench: (bench.reply("PUT", "/f", stream_forked_from="/s"), bench.reply("DELETE", "/s")),
        410,
    ),
    "deleted and created again": (
        lambda bench: (bench.reply("DELETE", "/s"), bench.reply("PUT", "/s", b"other")),
        404,
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_waiting_reader_hears_of_the_end(end: str) -> None:
    """L2, L6, F4."""

    async def main() -> None:
        bench = bench_with_stream()
        poll = bench.wait("/s?offset=-1&live=long-poll")
        sink = bench.watch("/s?offset=-1&live=sse")
        sink.take()
        happen, status = ENDS[end]
        happen(bench)
        reply = await poll
        assert reply.status == status
        closed = "closed" in end
        assert header(reply, "stream-closed") == ("true" if closed else None)
        await turn()
        assert sink.finished
        events = sink.take()
        assert [event.type for event in events] == (["data"] if status == 200 else []) + ["control"] * closed
        assert not bench.live.feeds
        assert not bench.live.polls

    asyncio.run(main())


def test_an_expired_stream_ends_its_readers() -> None:
    """L6, F4: at the next look at the clock, whoever looks."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", stream_ttl="5")
        poll = bench.wait("/s?offset=-1&live=long-poll")
        sink = bench.watch("/s?offset=-1&live=sse")
        bench.now_ms += 5_000
        bench.routes.store.expire(bench.now_ms)
        assert (await poll).status == 404
        assert sink.finished

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


def test_a_sources_append_wakes_no_reader_of_its_fork() -> None:
    """F3."""

    async def main() -> None:
        bench = bench_with_stream()
        bench.reply("PUT", "/fork", stream_forked_from="/s")
        poll = bench.wait("/fork?offset=-1&live=long-poll")
        sink = bench.watch("/fork?offset=-1&live=sse")
        sink.take()
        bench.reply("POST", "/s", b"unseen")
        await turn()
        assert sink.take() == []
        assert len(bench.live.polls) == 1
        bench.reply("POST", "/fork", b"seen")
        assert (await poll).body == b"seen"
        assert sink.data() == ["seen"]

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
        assert not bench.live.hub._readers

    asyncio.run(main())


def test_a_server_that_stops_lets_its_readers_go() -> None:
    """L6: those that wait, and those that come late."""

    async def main() -> None:
        bench = bench_with_stream()
        poll = bench.wait("/s?offset=-1&live=long-poll")
        sink = bench.watch("/s?offset=-1&live=sse")
        bench.live.drain()
        assert (await poll).status == 204
        assert sink.finished
        assert (await bench.wait("/s?offset=-1&live=long-poll")).status == 204
        late = bench.watch("/s?offset=-1&live=sse")
        assert [event.type for event in late.take()] == ["control"]
        assert late.finished

    asyncio.run(main())


# -- Server-sent events --------------------------------------------------------------------------


def test_each_data_event_has_its_own_control_event_in_one_write() -> None:
    """L4, L5."""

    async def main() -> None:
        bench = bench_with_stream()
        sink = bench.watch("/s?offset=-1&live=sse")
        [first] = sink.take()
        assert json.loads(first.data)["upToDate"] is True
        for text in ("one", "two"):
            bench.reply("POST", "/s", text.encode())
            await turn()
            [frame] = sink.frames
            assert frame.events.startswith(b"event: data\ndata:%b\n\nevent: control\n" % text.encode())
            sink.take()

    asyncio.run(main())


def test_a_reader_that_does_not_keep_up_is_sent_no_more_than_it_takes() -> None:
    """L4: what it missed stays in the store, and comes when it asks again."""

    async def main() -> None:
        bench = bench_with_stream()
        sink = bench.watch("/s?offset=-1&live=sse")
        sink.take()
        sink.writable = False
        for number in range(100):
            bench.reply("POST", "/s", b"%02d" % number)
            await turn()
        assert sink.take() == []
        [feed] = bench.live.feeds
        sink.writable = True
        feed.pump()
        assert "".join(sink.data()) == "".join(f"{number:02d}" for number in range(100))

    asyncio.run(main())


def test_a_long_stream_comes_in_events_of_bounded_size() -> None:
    """L4."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", bytes(1_000_000), content_type="application/octet-stream")
        sink = bench.watch("/s?offset=-1&live=sse")
        assert len(sink.frames) >= 4
        assert all(len(frame.events) < 400_000 for frame in sink.frames)
        controls = [json.loads(event.data) for event in sink.take() if event.type == "control"]
        assert [control.get("upToDate", False) for control in controls] == [False] * (len(controls) - 1) + [
            True
        ]

    asyncio.run(main())


def test_a_character_that_was_cut_by_an_append_arrives_whole() -> None:
    """L7."""

    async def main() -> None:
        bench = bench_with_stream()
        sink = bench.watch("/s?offset=-1&live=sse")
        sink.take()
        for byte in "aä€😀z".encode():
            bench.reply("POST", "/s", bytes([byte]))
            await turn()
        assert sink.data() == ["a", "ä", "€", "😀", "z"]

    asyncio.run(main())


def test_a_cut_character_comes_at_the_latest_with_the_end() -> None:
    """L7: as a replacement character, because it will never be whole."""

    async def main() -> None:
        bench = bench_with_stream()
        sink = bench.watch("/s?offset=-1&live=sse")
        bench.reply("POST", "/s", "a€".encode()[:-1])
        await turn()
        bench.reply("POST", "/s", stream_closed="true")
        await turn()
        assert sink.data() == ["a", "\ufffd"]
        assert sink.finished

    asyncio.run(main())


def test_a_silent_feed_is_kept_alive_by_comments() -> None:
    """L5."""

    async def main() -> None:
        bench = bench_with_stream(sse_ttl_s=1000)
        sink = bench.watch("/s?offset=-1&live=sse")
        sink.take()
        now_s = asyncio.get_running_loop().time()
        bench.live.tick(now_s + KEEP_ALIVE_S - 1)
        assert sink.frames == []
        bench.live.tick(now_s + KEEP_ALIVE_S + 1)
        bench.live.tick(now_s + KEEP_ALIVE_S + 2)
        [frame] = sink.frames
        assert frame.events.startswith(b":")
        assert sink.take() == []
        sink.writable = False
        bench.live.tick(now_s + 3 * KEEP_ALIVE_S)
        assert sink.frames == []

    asyncio.run(main())


def test_a_feed_ends_after_its_time() -> None:
    """L5."""

    async def main() -> None:
        bench = bench_with_stream(sse_ttl_s=60)
        sink = bench.watch("/s?offset=-1&live=sse")
        now_s = asyncio.get_running_loop().time()
        bench.live.tick(now_s + 59)
        assert not sink.finished
        bench.live.tick(now_s + 61)
        assert sink.finished
        assert not bench.live.feeds
        assert not bench.live.hub._readers

    asyncio.run(main())


@pytest.mark.parametrize("live", ["", "&live=long-poll", "&live=sse"])
@pytest.mark.parametrize("offset", ["-1", "now"])
@pytest.mark.parametrize("path", ["/s", "/ds/s"])
def test_every_reader_renews_a_ttl(path: str, offset: str, live: str) -> None:
    """G8: also the second one, whose events were encoded before, and AnyCable's."""

    async def main() -> None:
        bench = Bench(anycable=True)
        bench.reply("PUT", "/s", stream_ttl="10", content_type="application/json")
        for _ in range(4):
            bench.now_ms += 9_000
            answer = bench.ask("GET", f"{path}?offset={offset}{live}")
            assert bench.reply("HEAD", "/s").status == 200
            assert getattr(answer, "status", 200) == 200
            if isinstance(answer, EventFeed):
                answer.start(Sink())
        bench.live.drain()

    asyncio.run(main())
