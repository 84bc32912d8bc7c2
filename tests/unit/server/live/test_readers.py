"""What holds for every live reader: rules L2, L6, F3, F4, G8."""

import asyncio
from collections.abc import Callable

import pytest

from millstream.server.live.feeds import EventFeed
from unit.server.bench import Bench, Sink, bench_with_stream, header, turn

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
