"""Many streams on one connection: rule X9."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import jwt
import pytest
from pytest import MonkeyPatch

from millstream.protocol.events import MAX_STREAMS
from millstream.protocol.sse import Event
from millstream.server.http.connection import _WRITE_BUFFER_BYTES
from millstream.server.live import glob_walks
from millstream.server.live.frames import Frame
from millstream.store.pending import settled
from unit.server.bench import Bench, Sink, until

JSON = "application/json"


def told(event: Event) -> tuple[Any, ...]:
    """Shorten an event: what it says, without offsets."""
    about = json.loads(event.data) if event.type != "data" else {}
    if event.type == "data":
        return "data", event.id.rpartition("@")[0], event.data
    if event.type == "control":
        flags = [name for name in ("upToDate", "streamClosed", "streamDeleted") if about.get(name)]
        joined = ["joined"] if "streamContentType" in about else []
        return "control", about["streamPath"], *joined, *flags
    if event.type == "error":
        return "error", about.get("streamPath"), about["code"]
    return event.type, about["from"].partition(":")[0], bool(about.get("upToDate"))


def offsets(events: list[Event]) -> dict[str, str]:
    """Give the last offset of each stream, as `stream` takes it."""
    return {event.id.rpartition("@")[0]: event.id for event in events if event.id}


async def quiet(sink: Sink) -> list[Event]:
    """Let the loop do all that there is to do, and take what was sent."""
    for _ in range(200):
        await asyncio.sleep(0)
    return sink.take()


def test_each_stream_joins_and_is_followed() -> None:
    """X9."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/a", b"[1]", content_type=JSON)
        bench.reply("PUT", "/b", content_type="text/plain")
        sink = bench.watch("/__ds/events?stream=/a@-1&stream=/b@now")
        events = await quiet(sink)
        assert [told(event) for event in events] == [
            ("control", "/a", "joined"),
            ("control", "/b", "joined", "upToDate"),
            ("data", "/a", "[1]"),
            ("control", "/a", "upToDate"),
        ]
        assert events[2].id == events[3].id == "/a@" + json.loads(events[3].data)["streamNextOffset"]
        bench.reply("POST", "/b", b"hello")
        bench.reply("POST", "/a", b"[2,3]", content_type=JSON)
        assert [told(event) for event in await quiet(sink)] == [
            ("data", "/b", "hello"),
            ("control", "/b", "upToDate"),
            ("data", "/a", "[2,3]"),
            ("control", "/a", "upToDate"),
        ]

    asyncio.run(main())


def test_a_stream_begins_at_its_last_messages_or_at_a_time() -> None:
    """X9 with X7 and X8: resolved once, when it joins; the event says the offset."""

    async def main() -> None:
        bench = Bench()
        for number in range(5):
            bench.reply("PUT", "/a", content_type=JSON)
            bench.reply("POST", "/a", b"[%d]" % number, content_type=JSON)
        bench.reply("PUT", "/b", b"before", content_type="text/plain")
        sink = bench.watch("/__ds/events?stream=/a@last:2&stream=/b@time:2099-01-01T00:00:00Z")
        events = await quiet(sink)
        assert [told(event) for event in events] == [
            ("control", "/a", "joined"),
            ("control", "/b", "joined", "upToDate"),
            ("data", "/a", "[3,4]"),
            ("control", "/a", "upToDate"),
        ]
        assert json.loads(events[0].data)["streamNextOffset"].endswith("_0000000000000006")
        again = bench.watch(f"/__ds/events?stream={events[0].id}")
        assert ("data", "/a", "[3,4]") in [told(event) for event in await quiet(again)]
        assert bench.reply("GET", "/__ds/events?stream=/a@last:many").status == 400

    asyncio.run(main())


def test_streams_that_end_leave_and_the_last_one_ends_the_response() -> None:
    """X9."""

    async def main() -> None:
        bench = Bench()
        for name in ("/a", "/b", "/c"):
            bench.reply("PUT", name, b"x")
        bench.reply("POST", "/c", b"", stream_closed="true")
        sink = bench.watch("/__ds/events?stream=/a@now&stream=/b@now&stream=/c@now&stream=/d@-1")
        assert [told(event) for event in await quiet(sink)] == [
            ("control", "/a", "joined", "upToDate"),
            ("control", "/b", "joined", "upToDate"),
            ("control", "/c", "joined", "upToDate", "streamClosed"),
            ("error", "/d", "NOT_FOUND"),
        ]
        bench.reply("POST", "/a", b"y", stream_closed="true")
        bench.reply("DELETE", "/b")
        assert [told(event) for event in await quiet(sink)] == [
            ("data", "/a", "y"),
            ("control", "/a", "upToDate", "streamClosed"),
            ("control", "/b", "streamDeleted"),
        ]
        assert sink.finished
        assert not bench.live.hub.readers

    asyncio.run(main())


def test_a_glob_finds_streams_that_are_there_and_those_that_are_created() -> None:
    """X9: a stream that is created with content delivers it."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/chat/1", b"old")
        bench.reply("PUT", "/chat/2", b"old", stream_closed="true")
        bench.reply("PUT", "/other", b"old")
        sink = bench.watch("/__ds/events?glob=/chat/*")
        assert [told(event) for event in await quiet(sink)] == [
            ("globs", "now", False),
            ("control", "/chat/1", "joined", "upToDate"),
            ("globs", "now", True),
        ]
        bench.reply("PUT", "/chat/3", b"new")
        bench.reply("PUT", "/other/3", b"new")
        assert [told(event) for event in await quiet(sink)] == [
            ("control", "/chat/3", "joined"),
            ("globs", "now", True),
            ("data", "/chat/3", "new"),
            ("control", "/chat/3", "upToDate"),
        ]
        bench.reply("DELETE", "/chat/3")
        bench.reply("PUT", "/chat/3", b"again")
        assert [told(event) for event in await quiet(sink)] == [
            ("control", "/chat/3", "streamDeleted"),
            ("control", "/chat/3", "joined"),
            ("globs", "now", True),
            ("data", "/chat/3", "again"),
            ("control", "/chat/3", "upToDate"),
        ]

    asyncio.run(main())


def test_a_glob_from_the_beginning_delivers_what_there_is() -> None:
    """X9."""

    async def main() -> None:
        bench = Bench()
        for number in range(3):
            bench.reply("PUT", f"/chat/{number}", b"old", stream_closed="true" if number else "false")
        sink = bench.watch("/__ds/events?glob=/chat/*&from=-1")
        events = await quiet(sink)
        assert [told(event)[1:] for event in events if event.type == "data"] == [
            ("/chat/0", "old"),
            ("/chat/1", "old"),
            ("/chat/2", "old"),
        ]
        assert [event.type for event in events][-1] == "control"
        assert list(bench.live.hub.readers) == ["/chat/0"]

    asyncio.run(main())


def test_a_reader_of_a_glob_goes_on_where_it_was_cut() -> None:
    """X9: neither what it was told of comes again, nor is anything missing that came meanwhile."""

    async def main() -> None:
        bench = Bench()
        for number in range(5):
            bench.reply("PUT", f"/chat/{number}", b"old")
        bench.reply("PUT", "/chat/done", b"old", stream_closed="true")
        sink = bench.watch("/__ds/events?glob=/chat/*&from=-1")
        events = await quiet(sink)
        known = offsets(events)
        del known["/chat/done"]
        origin = json.loads(next(event for event in reversed(events) if event.type == "globs").data)["from"]
        next(iter(bench.live.feeds)).end()
        bench.reply("POST", "/chat/1", b" more")
        bench.reply("DELETE", "/chat/2")
        bench.reply("DELETE", "/chat/3")
        bench.reply("PUT", "/chat/3", b"another")
        bench.reply("PUT", "/chat/new", b"new")
        bench.reply("PUT", "/chat/brief", b"brief", stream_closed="true")
        named = "&".join(f"stream={id}" for id in known.values())
        sink = bench.watch(f"/__ds/events?{named}&glob=/chat/*&from={quote(origin)}")
        events = [told(event) for event in await quiet(sink)]
        assert [event for event in events if event[0] == "data"] == [
            ("data", "/chat/1", " more"),
            ("data", "/chat/3", "another"),
            ("data", "/chat/new", "new"),
            ("data", "/chat/brief", "brief"),
        ]
        assert ("error", "/chat/2", "NOT_FOUND") in events
        assert ("control", "/chat/3", "streamDeleted") in events

    asyncio.run(main())


def test_more_new_streams_than_wait_at_a_time_are_found_by_a_further_walk(monkeypatch: MonkeyPatch) -> None:
    """X9: none of them is missing, and each comes once."""
    monkeypatch.setattr(glob_walks, "_MAX_WAITING", 3)

    async def main() -> None:
        bench = Bench()
        sink = bench.watch("/__ds/events?glob=/chat/*")
        await quiet(sink)
        names = [f"/chat/{7 * number % 20:02}" for number in range(20)]
        for name in names:
            bench.reply("PUT", name, name.encode())
        events = [told(event) for event in await quiet(sink) + await quiet(sink)]
        assert [event[1] for event in events if event[0] == "data"] == names

    asyncio.run(main())


def test_what_a_token_may_not_read_is_refused_alone_and_its_existence_is_not_told() -> None:
    """X9."""

    async def main() -> None:
        bench = Bench(auth_secret="s" * 32)
        for name in ("/mine/1", "/secret/1"):
            bench.reply("PUT", name, b"x", authorization=bearer("write"))
        target = "/__ds/events?stream=/mine/1@-1&stream=/secret/1@-1&stream=/secret/2@-1&glob=/**"
        feed = bench.ask("GET", target, authorization=bearer("read:/mine/**"))
        sink = Sink()
        feed.start(sink)  # type: ignore[union-attr]  a feed, or the test fails
        events = [event for event in await quiet(sink) if event.type != "globs"]
        assert [told(event) for event in events][:3] == [
            ("control", "/mine/1", "joined"),
            ("error", "/secret/1", "FORBIDDEN"),
            ("error", "/secret/2", "FORBIDDEN"),
        ]
        first, second = events[1:3]
        assert first.data.replace("/secret/1", "/secret/2") == second.data
        assert "/secret" not in "".join(event.data for event in events[3:])
        bench.reply("PUT", "/secret/3", b"x", authorization=bearer("write"))
        bench.reply("PUT", "/mine/3", b"x", authorization=bearer("write"))
        assert {told(event)[1] for event in await quiet(sink) if event.type != "globs"} == {"/mine/3"}

    asyncio.run(main())


def test_streams_that_catch_up_together_have_turns() -> None:
    """X9: a long one does not hold up the others, and a step sends little."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/long", bytes(3_000_000), content_type="application/octet-stream")
        names = [f"/short/{number}" for number in range(200)]
        for name in names:
            bench.reply("PUT", name, b"x")
        sink = bench.watch("/__ds/events?stream=/long@-1&" + "&".join(f"stream={name}@-1" for name in names))
        await until(lambda: sum(len(frame.events) for frame in sink.frames) > 4_000_000)
        assert max(len(frame.events) for frame in sink.frames) < 512 * 1024
        data = [told(event)[1] for event in sink.take() if event.type == "data"]
        assert set(data) == {"/long", *names}
        assert len(data) == 200 + 12
        assert max(place for place, name in enumerate(data) if name != "/long") < 210

    asyncio.run(main())


def test_a_reader_that_does_not_read_is_sent_no_more_than_it_takes() -> None:
    """X9: what it missed stays in the store."""

    async def main() -> None:
        bench = Bench()
        names = [f"/{number}" for number in range(50)]
        for name in names:
            bench.reply("PUT", name, content_type="text/plain")
        sink = bench.watch("/__ds/events?glob=/*&" + "&".join(f"stream={name}@-1" for name in names))
        await quiet(sink)
        sink.writable = False
        for number in range(20):
            for name in names:
                bench.reply("POST", name, b"%02d" % number)
            await asyncio.sleep(0)
        bench.reply("PUT", "/new", b"new")
        assert await quiet(sink) == []
        sink.writable = True
        next(iter(bench.live.feeds)).pump()  # type: ignore[attr-defined]  what a sink calls
        data = [told(event)[1:] for event in await quiet(sink) if event.type == "data"]
        expected = "".join(f"{number:02d}" for number in range(20))
        assert sorted(data) == sorted([*((name, expected) for name in names), ("/new", "new")])

    asyncio.run(main())


def test_a_long_message_is_one_event_and_nothing_comes_between() -> None:
    """X9, L4."""

    async def main() -> None:
        bench = Bench()
        long = json.dumps(["x" * 500_000, 1]).encode()
        await settled(bench.ask("PUT", "/long", long, content_type=JSON))
        bench.reply("PUT", "/short", b"[1]", content_type=JSON)
        sink = bench.watch("/__ds/events?stream=/long@-1&stream=/short@-1")
        await until(lambda: sum(len(frame.events) for frame in sink.frames) > 500_000)
        events = await quiet(sink)
        messages: dict[str, list[Any]] = {}
        for event in events:
            if event.type == "data":
                messages.setdefault(event.id.rpartition("@")[0], []).extend(json.loads(event.data))
        assert messages == {"/long": json.loads(long), "/short": [1]}

    asyncio.run(main())


def test_globs_that_match_too_many_streams_are_refused_by_an_event() -> None:
    """X9."""

    async def main() -> None:
        bench = Bench()
        for number in range(MAX_STREAMS + 1):
            bench.reply("PUT", f"/{number}", b"")
        sink = bench.watch("/__ds/events?glob=/*")
        await until(lambda: sink.finished)
        assert told(sink.take()[-1]) == ("error", None, "TOO_MANY_STREAMS")
        assert not bench.live.hub.readers

    asyncio.run(main())


def test_a_feed_ends_when_its_time_is_up_and_when_the_server_stops() -> None:
    """X9, L5, L6."""

    async def main() -> None:
        bench = Bench(sse_ttl_s=60.0)
        bench.reply("PUT", "/s", b"x")
        sinks = [bench.watch("/__ds/events?stream=/s@-1&glob=/t/*") for _ in range(2)]
        await quiet(sinks[0])
        bench.live.tick(asyncio.get_running_loop().time() + 61)
        assert [sink.finished for sink in sinks] == [True, True]
        sink = bench.watch("/__ds/events?stream=/s@-1")
        bench.live.drain()
        assert sink.finished
        sink = bench.watch("/__ds/events?stream=/s@-1")
        assert sink.finished
        assert [event.type for event in sink.take()] == ["control", "data", "control"]
        assert not bench.live.feeds
        assert not bench.live.hub.readers

    asyncio.run(main())


def test_following_renews_a_ttl() -> None:
    """X9, G8."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", b"x", stream_ttl="10")
        bench.now_ms += 9_000
        await quiet(bench.watch("/__ds/events?stream=/s@now"))
        bench.now_ms += 9_000
        assert bench.reply("HEAD", "/s").status == 200

    asyncio.run(main())


def bearer(scope: str) -> str:
    """Make a token."""
    return "Bearer " + jwt.encode({"scope": scope}, "s" * 32, algorithm="HS256")


class StalledSink(Sink):
    """A client that never reads: its connection takes what fits into its buffer, and says so."""

    held = 0

    def write(self, frame: Frame) -> None:
        self.held += len(frame.events)
        self.writable = self.held < _WRITE_BUFFER_BYTES


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream", JSON])
def test_a_reader_that_does_not_read_holds_less_than_a_mebibyte(content_type: str) -> None:
    """X9: in all, however many streams have however much for it."""

    async def main() -> None:
        bench = Bench()
        body = b'["' + b"x" * 300_000 + b'"]' if content_type == JSON else b"\n" * 300_000
        for number in range(40):
            await settled(bench.ask("PUT", f"/s/{number}", body, content_type=content_type))
        sink = StalledSink()
        bench.watch("/__ds/events?glob=/s/*&from=-1", sink)
        for number in range(40):
            await settled(bench.ask("POST", f"/s/{number}", body, content_type=content_type))
            await quiet(Sink())
        assert _WRITE_BUFFER_BYTES <= sink.held < 2**20

    asyncio.run(main())
