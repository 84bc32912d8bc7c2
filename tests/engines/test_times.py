"""Arrival times, reads from a time, and reads of the last messages: rules X7, X8."""

import json
from itertools import accumulate
from typing import Any

import pytest

from engines.driving import JSON, Engine, created
from millstream.protocol.origins import Ago, Last, Origin, Since
from millstream.protocol.reads import Chunk, Run
from millstream.protocol.requests import AppendRequest, LiveMode, ReadRequest
from millstream.protocol.retention import Retention
from millstream.store.log.files import layout
from millstream.store.pending import settled

HOUR_MS = 3_600_000


def read_from(engine: Engine, name: str, origin: Origin, **options: Any) -> Chunk:
    found = engine.read_from(name, origin, **options)
    assert isinstance(found, Chunk), found
    return found


def write(engine: Engine, name: str, *delays_ms: int) -> None:
    """Append letters, each so long after the one before."""
    for number, delay_ms in enumerate(delays_ms):
        engine.now_ms += delay_ms
        engine.append(name, b"%c" % (ord("a") + number % 26))


@pytest.fixture
def hours(engine: Engine) -> Engine:
    """An engine with the stream /s that holds `abcd`, one letter an hour, from one hour on."""
    engine.create("/s")
    write(engine, "/s", HOUR_MS, HOUR_MS, HOUR_MS, HOUR_MS)
    return engine


@pytest.mark.parametrize(("letter", "hour"), [(0, 1), (1, 2), (2, 3), (3, 4)])
def test_a_time_finds_the_first_append_at_or_after_it(hours: Engine, letter: int, hour: int) -> None:
    """X7: also after a checkpoint, a restart and a crash, and in a fork."""
    began_ms = hours.now_ms - 4 * HOUR_MS
    for change in (
        lambda: None,
        hours.checkpoint,
        hours.restart,
        hours.crash,
        lambda: hours.fork("/f", "/s"),
    ):
        change()
        for name in ("/s", "/f") if hours.names() == ["/f", "/s"] else ("/s",):
            at_ms = began_ms + hour * HOUR_MS
            assert read_from(hours, name, Since(at_ms)).start == letter
            assert read_from(hours, name, Since(at_ms - 1)).start == letter
            assert read_from(hours, name, Since(at_ms + 1)).start == letter + 1
            assert read_from(hours, name, Ago(hours.now_ms - at_ms)).start == letter
            found = hours.chunk(name, letter, limit=1)
            assert (found.first_ms, found.last_ms) == (at_ms, at_ms)


def test_a_time_past_the_tail_is_the_tail(hours: Engine) -> None:
    """X7."""
    found = read_from(hours, "/s", Since(hours.now_ms + 1))
    assert (found.start, found.end, found.up_to_date, found.first_ms) == (4, 4, True, 0)
    assert found.last_ms == hours.now_ms


def test_times_never_go_back(engine: Engine) -> None:
    """X7: also when the clock does, and after a restart."""
    engine.create("/s", b"a")
    created_ms = engine.now_ms
    engine.now_ms -= HOUR_MS
    engine.append("/s", b"b")
    engine.restart()
    engine.now_ms += HOUR_MS + 10
    engine.append("/s", b"c")
    engine.checkpoint()
    engine.now_ms -= 2 * HOUR_MS
    engine.crash()
    engine.append("/s", b"d")
    engine.fork("/f", "/s", body=b"e")
    engine.append("/f", b"f")
    for _ in range(2):
        times = [engine.chunk("/f", at, limit=1).first_ms for at in range(6)]
        assert times == [created_ms, created_ms] + [created_ms + 10] * 4
        engine.checkpoint()
        engine.restart()


def test_a_stream_says_its_first_and_last_time(hours: Engine) -> None:
    """X7: a close is no append."""
    first_ms, last_ms = hours.now_ms - 3 * HOUR_MS, hours.now_ms
    hours.now_ms += HOUR_MS
    hours.append("/s", closes=True)
    hours.create("/empty")
    hours.fork("/f", "/s", 2)
    for _ in range(2):
        stream = hours.stream("/s")
        assert (stream.first_time_ms, stream.last_time_ms) == (first_ms, last_ms)
        assert stream.last_write_ms == hours.now_ms
        stream = hours.stream("/empty")
        assert (stream.first_time_ms, stream.last_time_ms) == (0, 0)
        stream = hours.stream("/f")
        assert (stream.first_time_ms, stream.last_time_ms) == (first_ms, first_ms + HOUR_MS)
        listed = {one.name: (one.first_time_ms, one.last_time_ms) for one in hours.listing().streams}
        assert listed["/s"] == (first_ms, last_ms)
        hours.checkpoint()
        hours.restart()


def test_a_trimmed_stream_begins_where_it_is_kept(engine: Engine) -> None:
    """X7, X8, X4: and its fork where it did."""
    engine.create("/s", retention=Retention(bytes=4))
    write(engine, "/s", *([10] * 4))
    engine.fork("/f", "/s", retention=Retention(bytes=1000))
    began_ms = engine.now_ms - 40
    write(engine, "/s", *([10] * 8))
    for _ in range(2):
        engine.expire()
        engine.until(lambda: engine.stream("/s").start == 8)
        start = 8
        for origin in (Since(0), Since(began_ms + 10), Last(9), Since(began_ms + 90)):
            assert read_from(engine, "/s", origin).start == start
        assert read_from(engine, "/s", Since(began_ms + 91)).start == start + 1
        assert read_from(engine, "/s", Last(3)).data == b"fgh"
        assert engine.stream("/s").first_time_ms == began_ms + 90
        assert read_from(engine, "/f", Since(0)).data == b"abcd"
        assert read_from(engine, "/f", Last(2)).data == b"cd"
        assert engine.stream("/f").first_time_ms == began_ms + 10
        engine.checkpoint()
        engine.restart()


@pytest.mark.parametrize("count", range(8))
def test_the_last_appends(engine: Engine, count: int) -> None:
    """X8: a fork's cut of an append counts as one."""
    engine.create("/s", b"one ")
    engine.append("/s", b"two ")
    engine.append("/s", b"three ")
    engine.fork("/f", "/s", 8, 3, body=b"four ")
    engine.append("/f", b"five ")
    pieces = [b"one ", b"two ", b"thr", b"four ", b"five "]
    for _ in range(2):
        found = read_from(engine, "/f", Last(count))
        assert found.data == b"".join(pieces[max(0, len(pieces) - count) :])
        assert found.up_to_date
        engine.checkpoint()
        engine.restart()


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 2), (5,), (400, 1, 3000, 2), (30_000, 3, 9_000)])
@pytest.mark.parametrize("last_fork", [False, True])
def test_the_last_messages(engine: Engine, sizes: tuple[int, ...], last_fork: bool) -> None:
    """X8: whatever the appends they came in; also of large ones, and in a fork that begins inside of one."""
    numbers = iter(range(sum(sizes)))
    engine.create("/s", content_type=JSON)
    messages: list[bytes] = []
    for size in sizes:
        batch = [next(numbers) for _ in range(size)]
        messages += [b"%d," % number for number in batch]
        engine.append("/s", json.dumps(batch).encode(), content_type=JSON)
    name = "/s"
    if last_fork:
        messages = messages[: sum(sizes[:-1]) + sizes[-1] // 2]
        base = sum(map(len, messages[: sum(sizes[:-1])]))
        created(engine.fork("/f", "/s", base, len(messages) - sum(sizes[:-1])))
        name = "/f"
    positions = [0, *accumulate(map(len, messages))]
    for _ in range(2):
        for count in {0, 1, 2, 3, 5, 401, 3005, len(messages) - 1, len(messages), len(messages) + 7}:
            found = read_from(engine, name, Last(count))
            assert found.start == positions[max(0, len(messages) - count)]
            assert (found.end, found.up_to_date) == (positions[-1], True)
        engine.checkpoint()
        engine.restart()


def test_what_arrives_during_a_search_is_not_part_of_it(engine: Engine) -> None:
    """X8: the last messages of the moment when they were asked for."""
    engine.create("/s", content_type=JSON)
    engine.append("/s", json.dumps(list(range(30_000))).encode(), content_type=JSON)

    async def read_while_writing() -> object:
        request = ReadRequest(origin=Last(3))
        found = engine.store.read("/s", request, 2**20, engine.now_ms)
        await settled(engine.store.append("/s", AppendRequest(b"0,", JSON, False, None, None), engine.now_ms))
        return await settled(found)

    found = engine._runner.run(read_while_writing())
    assert isinstance(found, Chunk)
    # A store that others write to, too, looks at the stream after it was asked.
    moments = [b"29997,29998,29999,", *([b"29998,29999,0,"] if engine.store.is_shared else [])]
    assert found.data in moments


def test_a_chunk_has_the_times_of_its_appends(engine: Engine) -> None:
    """X7: or ends where the time changes."""
    engine.create("/s", b"ab")
    began_ms = engine.now_ms
    engine.append("/s", b"cd")
    engine.now_ms += 5
    engine.append("/s", b"ef")
    engine.fork("/f", "/s", 4, 1)
    engine.now_ms += 5
    engine.append("/f", b"gh")
    runs = (Run(4, began_ms), Run(5, began_ms + 5), Run(7, began_ms + 10))
    for _ in range(2):
        assert read_from(engine, "/f", Since(0), live=LiveMode.SSE, times=True).runs == runs
        assert read_from(engine, "/f", Since(0), times=True).data == b"abcd"
        engine.checkpoint()
        engine.restart()


def test_many_appends_have_their_times(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """X7: those in files of their own, in pages that are full or not, written at once or one by one."""
    monkeypatch.setattr(layout, "PACKED_BYTES", 100)
    monkeypatch.setattr(layout, "PAGE_ENTRIES", 16)
    engine.create("/s")
    times = list(accumulate(([3] * 40 + [HOUR_MS] + [0] * 20 + [200] * 25) * 2, initial=engine.now_ms))[1:]
    for number, time_ms in enumerate(times):
        engine.now_ms = time_ms
        engine.append("/s", b"%08d" % number)
        if number % 37 == 0 or number > 130:
            engine.checkpoint()
    for _ in range(2):
        for number, time_ms in enumerate(times):
            assert engine.chunk("/s", 8 * number, limit=8).first_ms == time_ms
            first = times.index(time_ms)
            assert read_from(engine, "/s", Since(time_ms)).start == 8 * first
            assert read_from(engine, "/s", Last(number)).start == 8 * (len(times) - number)
        engine.checkpoint()
        engine.restart()
