"""Event feeds: rules L4, L5, L7."""

import asyncio
import json

from millstream.protocol import sse
from millstream.protocol.content import Kind
from millstream.protocol.http import Reply
from millstream.server.live.feeds import KEEP_ALIVE_S, EventFeed
from millstream.store.pending import settled
from unit.server.bench import Bench, Sink, bench_with_stream, turn, until


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
        await turn()
        assert "".join(sink.data()) == "".join(f"{number:02d}" for number in range(100))

    asyncio.run(main())


def test_a_long_stream_comes_in_events_of_bounded_size() -> None:
    """L4."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", bytes(1_000_000), content_type="application/octet-stream")
        sink = bench.watch("/s?offset=-1&live=sse")
        assert len(sink.frames) == 1, "others have their turn before the next one"
        await until(lambda: sink.frames[-1].end == 1_000_000)
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
        assert not bench.live.hub.readers

    asyncio.run(main())


LONG = b'[1,{"text":"' + b"x" * 400_000 + b'", "lines":[' + b"\r\n \n" * 100_000 + b"]},2]"


async def bench_with_long_message() -> Bench:
    bench = Bench(sse_ttl_s=60)
    created = await settled(bench.ask("PUT", "/s", LONG, content_type="application/json"))
    assert isinstance(created, Reply)
    assert created.status == 201
    return bench


def feed_of(bench: Bench) -> EventFeed:
    [feed] = bench.live.feeds
    assert isinstance(feed, EventFeed)
    return feed


def written(sink: Sink) -> bytes:
    return b"".join(frame.events for frame in sink.frames)


def is_up_to_date(sink: Sink) -> bool:
    return b'"upToDate":true' in sink.frames[-1].events[-200:] if sink.frames else False


def test_a_long_message_comes_in_pieces_of_one_event() -> None:
    """L4: as if it had been written in one go, but a reader that stalls holds no more than a piece."""

    async def main() -> None:
        bench = await bench_with_long_message()
        sink = bench.watch("/s?offset=-1&live=sse")
        await until(lambda: is_up_to_date(sink))
        assert max(len(frame.events) for frame in sink.frames) < 600_000
        assert sse.data_event(Kind.JSON, LONG[3:-3] + b",") in written(sink)
        types = [event.type for event in sink.take()]
        assert types == ["data", "control"] * 3

    asyncio.run(main())


def test_nothing_is_written_into_the_middle_of_a_long_message() -> None:
    """L4, L5: neither a comment nor the next message; when time is up, it is finished first."""

    async def main() -> None:
        bench = await bench_with_long_message()
        sink = bench.watch("/s?offset=-1&live=sse")
        await until(lambda: len(sink.frames) > 3)
        sink.writable = False
        bench.reply("POST", "/s", b"3", content_type="application/json")
        await turn()
        sent = len(sink.frames)
        now_s = asyncio.get_running_loop().time()
        bench.live.tick(now_s + KEEP_ALIVE_S + 1)
        assert len(sink.frames) == sent
        feed = feed_of(bench)
        feed._ends_at_s = now_s
        bench.live.tick(now_s + 1)
        assert not sink.finished
        sink.writable = True
        feed.pump()
        await until(lambda: is_up_to_date(sink))
        bench.live.tick(now_s + 2)
        assert sink.finished
        assert [event.data for event in sink.take() if event.type == "data"][-1] == "[2,3]"

    asyncio.run(main())


def test_a_reader_that_stalls_in_a_long_message_is_ended() -> None:
    """L5."""

    async def main() -> None:
        bench = await bench_with_long_message()
        sink = bench.watch("/s?offset=-1&live=sse")
        await until(lambda: len(sink.frames) > 3)
        sink.writable = False
        await turn()
        bench.live.tick(asyncio.get_running_loop().time() + 61)
        assert sink.finished

    asyncio.run(main())


def test_a_long_message_whose_stream_is_deleted_is_cut() -> None:
    """L6: without its blank line it is no event, so the reader asks for it again and learns why."""

    async def main() -> None:
        bench = await bench_with_long_message()
        sink = bench.watch("/s?offset=-1&live=sse")
        await until(lambda: len(sink.frames) > 3)
        bench.reply("DELETE", "/s")
        await until(lambda: sink.finished)
        assert [event.type for event in sink.take()] == ["data", "control"]

    asyncio.run(main())
