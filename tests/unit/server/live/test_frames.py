"""Frames are made once for all readers at a position: rules L4, L5."""

import asyncio
from typing import Any

import pytest

from millstream.protocol.requests import AppendRequest, ReadRequest
from millstream.server.live import frames
from millstream.store.memory import MemoryEngine, memory_store
from millstream.store.pending import Pending
from millstream.store.table import Table
from unit.server.bench import Bench, turn, until


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the frames begin that were made."""
    starts: list[int] = []
    make_frame = frames.make_frame

    def counting(chunk: Any, cursor: int) -> frames.Frame:
        starts.append(chunk.start)
        return make_frame(chunk, cursor)

    monkeypatch.setattr(frames, "make_frame", counting)
    return starts


def test_a_message_is_encoded_once_for_all_readers(made: list[int]) -> None:
    """L4: the very same bytes go to each of them, as events and as an HTTP chunk."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", content_type="text/plain")
        sinks = [bench.watch("/s?offset=-1&live=sse") for _ in range(200)]
        assert made == [0]
        for number in range(10):
            bench.reply("POST", "/s", b"%d" % number)
            await until(lambda end=number + 1: all(sink.frames[-1].end == end for sink in sinks))
        assert made == [0, *range(10)]
        for sink in sinks:
            assert sink.data() == [str(number) for number in range(10)]
        bench.reply("POST", "/s", b"!")
        await until(lambda: all(sink.frames for sink in sinks))
        assert len({id(sink.frames[-1].as_chunk) for sink in sinks}) == 1

    asyncio.run(main())


def test_a_reader_that_is_woken_late_gets_all_that_it_missed_in_one_write(made: list[int]) -> None:
    """L4: appends are let in between the slices of many readers; each gets everything once, in order."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", content_type="text/plain")
        sinks = [bench.watch("/s?offset=-1&live=sse") for _ in range(100)]
        for sink in sinks:
            sink.take()
        made.clear()
        for letter in b"abcd":
            bench.reply("POST", "/s", bytes([letter]))
            await asyncio.sleep(0)
        await until(lambda: all(sink.frames and sink.frames[-1].end == 4 for sink in sinks))
        writes = [len(sink.frames) for sink in sinks]
        assert all("".join(sink.data()) == "abcd" for sink in sinks)
        assert min(writes) == 1
        assert max(writes) == 2, "who was woken first is woken once more, and not three times"
        assert len(made) < 10, "a slice shares its frames"

    asyncio.run(main())


def test_nothing_is_kept_of_a_stream_that_nobody_watches() -> None:
    """Or every stream that was ever watched would be held in memory until it changes."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", b"x" * 300_000)
        watching = [bench.watch("/s?offset=-1&live=sse") for _ in range(2)]
        assert bench.live.frames._kept
        for feed in list(bench.live.feeds):
            feed.leave()
        assert not bench.live.frames._kept
        assert len(watching) == 2
        assert getattr(bench.ask("GET", "/nowhere?offset=-1&live=sse"), "status", 0) == 404
        assert not bench.live.frames._kept

    asyncio.run(main())


def test_a_long_stream_that_is_watched_is_not_kept_a_second_time() -> None:
    async def main() -> None:
        bench = Bench(max_body_bytes=2**25)
        bench.reply("PUT", "/s", b"x" * 20_000_000)
        sink = bench.watch("/s?offset=-1&live=sse")
        await until(lambda: sink.frames[-1].end == 20_000_000)
        kept = [frame for by_place in bench.live.frames._kept.values() for frame in by_place.values()]
        assert sum(len(frame.events) for frame in kept if isinstance(frame, frames.Frame)) < 2**20

    asyncio.run(main())


class SlowStore(Table):
    """Reads as an engine does that has to ask somebody else: decided now, delivered later."""

    def __init__(self) -> None:
        super().__init__(MemoryEngine())
        self.slow = False
        self.deliveries: list[tuple[Pending[Any], Any]] = []

    def read(self, *request: Any, **options: Any) -> Any:
        found = super().read(*request, **options)
        if not self.slow or options.get("peek"):
            return found
        pending: Pending[Any] = Pending()
        self.deliveries.append((pending, found))
        return pending

    def deliver(self) -> None:
        deliveries, self.deliveries = self.deliveries, []
        for pending, found in deliveries:
            pending.settle(found)


def test_a_change_during_a_slow_read_is_not_missed() -> None:
    """L4: a frame of the past is not kept for the readers of the present."""

    async def main() -> None:
        store = SlowStore()
        bench = Bench(store)
        bench.reply("PUT", "/s", content_type="text/plain")
        store.slow = True
        sinks = [bench.watch("/s?offset=-1&live=sse") for _ in range(2)]
        store.append("/s", AppendRequest(b"new", b"text/plain", False, None, None), bench.now_ms)
        for _ in range(4):
            store.deliver()
            await turn()
        assert [sink.data() for sink in sinks] == [["new"], ["new"]]

    asyncio.run(main())


def test_readers_at_a_position_wait_for_one_slow_read(made: list[int]) -> None:
    """L4: or each of a thousand would have the frame made again."""

    async def main() -> None:
        store = SlowStore()
        bench = Bench(store)
        bench.reply("PUT", "/s", b"hello")
        store.slow = True
        sinks = [bench.watch("/s?offset=-1&live=sse") for _ in range(20)]
        assert len(store.deliveries) == 1
        store.deliver()
        assert [sink.data() for sink in sinks] == [["hello"]] * 20
        assert made == [0]

    asyncio.run(main())


def test_a_reader_that_leaves_during_a_slow_read_is_sent_nothing() -> None:
    async def main() -> None:
        store = SlowStore()
        bench = Bench(store)
        bench.reply("PUT", "/s", b"hello")
        store.slow = True
        sink = bench.watch("/s?offset=-1&live=sse")
        [feed] = bench.live.feeds
        feed.leave()
        store.deliver()
        assert sink.frames == []

    asyncio.run(main())


def test_a_long_poll_of_a_slow_store_is_answered_once() -> None:
    """L2."""

    async def main() -> None:
        store = SlowStore()
        bench = Bench(store)
        bench.reply("PUT", "/s", content_type="text/plain")
        store.slow = True
        poll = bench.wait("/s?offset=-1&live=long-poll")
        for text in (b"a", b"b"):
            store.append("/s", AppendRequest(text, b"text/plain", False, None, None), bench.now_ms)
            await turn()
        while store.deliveries:
            store.deliver()
            await turn()
        assert (await poll).body.startswith(b"a")
        assert not bench.live.polls

    asyncio.run(main())


def test_a_stream_that_is_gone_has_no_next_frame() -> None:
    """L6."""
    store = memory_store()
    assert frames.Frames(store).next("/s", 0, 1, 0) is None
    assert ReadRequest().offset == -1
