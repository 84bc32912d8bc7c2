"""Arrival times: each append has one, and a read can begin at one (extension; X7)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from millstream_conformance.server.checks import across_restart, each, needs, patient, rule
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream
from millstream_conformance.server.suite.test_forks import fork_of
from millstream_conformance.server.suite.test_retention import overfull
from millstream_conformance.server.wire import Answer

FIRST, LAST, START = "Stream-First-Time", "Stream-Last-Time", "Stream-Start-Offset"
FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
APART_S = 0.02


def spaced(server: Server, *bodies: bytes) -> Stream:
    """A text stream whose appends arrived some milliseconds apart."""
    stream = server.stream("text/plain")
    for body in bodies:
        stream.append(body)
        time.sleep(APART_S)
    return stream


def times_of(answer: Answer) -> tuple[str | None, str | None]:
    """The first and the last time that an answer says."""
    return answer.headers.get(FIRST), answer.headers.get(LAST)


def moved(moment: str, milliseconds: int) -> str:
    """A time some milliseconds later, or earlier."""
    found = datetime.fromisoformat(moment) + timedelta(milliseconds=milliseconds)
    return found.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@rule("X7")
@needs("time")
def test_answers_say_when_content_arrived(server: Server) -> None:
    """HEAD says the first and the last time of the stream, GET those of what it returns, in UTC."""
    began = datetime.now(UTC) - timedelta(seconds=60)
    stream = spaced(server, b"one ", b"two ", b"three ")
    first, last = times_of(stream.head())
    assert first is not None
    assert last is not None
    assert FORM.fullmatch(first)
    assert FORM.fullmatch(last)
    assert began < datetime.fromisoformat(first) < datetime.fromisoformat(last)
    assert times_of(stream.get("-1")) == (first, last)
    second = stream.get(f"time:{moved(first, 1)}", limit=1).headers.get(FIRST)
    assert first < (second or "") < last
    assert times_of(stream.get(stream.tail())) == (None, last)


@rule("X7")
@needs("time")
def test_an_empty_stream_has_no_times(server: Server) -> None:
    """Neither has a close an arrival time."""
    stream = server.stream("text/plain")
    assert times_of(stream.head()) == (None, None)
    stream.close()
    assert times_of(stream.head()) == (None, None)


@rule("X7")
@needs("time", "list")
def test_the_listing_has_the_times(server: Server) -> None:
    """As firstTime and lastTime, null for an empty stream."""
    stream, empty = spaced(server, b"one", b"two"), server.stream("text/plain")
    for one in (stream, empty):
        answer = server.request("GET", "/__ds/streams", query=f"prefix={one.path}&limit=1")
        (listed,) = answer.json()["streams"]
        assert (listed["firstTime"], listed["lastTime"]) == times_of(one.head())


@rule("X7")
@needs("time")
def test_a_read_begins_at_the_first_append_of_a_time_or_later(server: Server) -> None:
    """A time between two appends begins with the later one, and the answer says where that is."""
    stream = spaced(server, b"one ", b"two ", b"three ")
    first, last = times_of(stream.head())
    assert first is not None
    assert last is not None
    rows = {first: b"one two three ", moved(first, 1): b"two three ", last: b"three ", moved(first, -1): None}
    for moment, body in rows.items():
        answer = stream.get(f"time:{moment}")
        assert answer.status == 200
        assert answer.body == (b"one two three " if body is None else body)
        assert answer.up_to_date
        assert answer.next_offset == stream.tail()
        assert stream.get(answer.headers.get(START)).body == answer.body
    east = datetime.fromisoformat(last).isoformat(timespec="milliseconds").replace("+00:00", "-00:00")
    assert stream.get(f"time:{east}").body == b"three "


@rule("X7")
@needs("time")
def test_a_time_past_the_tail_is_the_tail(server: Server) -> None:
    """Nothing is returned, and what arrives next is read from there."""
    stream = spaced(server, b"one")
    answer = stream.get("time:2999-12-31T23:59:59Z")
    assert (answer.status, answer.body, answer.next_offset) == (200, b"", stream.tail())
    assert answer.up_to_date
    stream.append(b"two")
    assert stream.get(answer.next_offset).body == b"two"


@rule("X7")
@needs("time")
@each("ago", {"seconds": "3600s", "minutes": "60m", "hours": "1h", "days": "1d"})
def test_a_time_before_now(server: Server, ago: str) -> None:
    """time:-10m is ten minutes before the request."""
    stream = spaced(server, b"one ", b"two ")
    assert stream.get(f"time:-{ago}").body == b"one two "
    assert stream.get("time:-0s").body == b""


@rule("X7", "O3")
@needs("time")
@each(
    "bad",
    {
        "nothing": "",
        "words": "yesterday",
        "no zone": "2030-01-31T12:00:00",
        "only a date": "2030-01-31",
        "a thirteenth month": "2030-13-01T00:00:00Z",
        "no unit": "-10",
        "another unit": "-10w",
        "a fraction": "-1.5h",
        "a sum": "-1h30m",
        "a future": "+10m",
    },
)
def test_what_is_no_time_is_400(server: Server, bad: str) -> None:
    """The error says so."""
    stream = spaced(server, b"one")
    answer = stream.get(f"time:{bad}")
    assert answer.status == 400
    assert answer.json()["code"] == "INVALID_TIMESTAMP"


@rule("X7", "G6")
@needs("time")
def test_what_changes_by_itself_is_not_stored(server: Server) -> None:
    """A time that is counted from the request, or that is past the tail, has no ETag and is not cached."""
    stream = spaced(server, b"one")
    for origin in ("time:-1h", "time:-0s", "time:2999-12-31T23:59:59Z"):
        answer = stream.get(origin)
        assert "no-store" in (answer.headers.get("Cache-Control") or "")
        assert answer.headers.get("ETag") is None
    fixed = stream.get(f"time:{times_of(stream.head())[0]}")
    tag = fixed.headers.get("ETag")
    assert tag == stream.get(fixed.headers.get(START)).headers.get("ETag")
    condition = {"If-None-Match": tag or ""}
    assert stream.get(f"time:{times_of(stream.head())[0]}", headers=condition).status == 304


@rule("X7")
@needs("time")
@patient
def test_live_reads_begin_at_a_time(server: Server) -> None:
    """A long-poll and an event stream begin there and go on; control events say the last time."""
    stream = spaced(server, b"one ", b"two ")
    last = times_of(stream.head())[1]
    assert stream.poll(f"time:{last}").body == b"two "
    with stream.events(f"time:{last}") as live:
        data, control = live.until_control()
        assert data.data == "two "
        assert control.json()["streamLastTime"] == last
        stream.append(b"three ")
        data, control = live.until_control()
        assert data.data == "three "
        assert control.json()["streamLastTime"] == times_of(stream.head())[1]
        assert control.json()["streamLastTime"] > last


@rule("X7")
@needs("time")
def test_events_can_be_had_for_each_time(server: Server) -> None:
    """With times=true a data event holds appends of one time, which its control event says."""
    stream = spaced(server, b"one ", b"two ", b"three ")
    first, last = times_of(stream.head())
    with stream.events("-1", times="true") as live:
        found = live.until_control(up_to_date=True)
    assert [event.data for event in found if event.kind == "data"] == ["one ", "two ", "three "]
    times = [event.json()["streamLastTime"] for event in found if event.kind == "control"]
    assert times == sorted(set(times))
    assert (times[0], times[-1]) == (first, last)
    answer = stream.get("-1", times="true")
    assert (answer.body, *times_of(answer)) == (b"one ", first, first)
    assert not answer.up_to_date


@rule("X7", "F1")
@needs("time", "forks")
def test_a_fork_shares_its_sources_times(server: Server) -> None:
    """What it inherits has the times that it had; its own appends are later."""
    stream = spaced(server, b"one ", b"two ")
    first, last = times_of(stream.head())
    fork = fork_of(stream)
    assert times_of(fork.head()) == (first, last)
    fork.append(b"own ")
    assert fork.get(f"time:{last}").body == b"two own "
    assert (times_of(fork.head())[1] or "") >= (last or "")


@rule("X7", "X4")
@needs("time", "retain")
@patient
def test_a_time_before_what_is_kept_begins_there(server: Server) -> None:
    """And the first time is that of the first append that is kept."""
    stream = overfull(server)
    answer = stream.get("time:2000-01-01T00:00:00Z")
    assert answer.status == 200
    assert answer.headers.get(START) == stream.head().headers.get("Stream-Earliest-Offset")
    assert answer.body == stream.content()
    assert times_of(stream.head()) == times_of(answer)


@rule("X7")
@needs("time", "restart")
@across_restart
def test_times_survive_a_restart(server: Server) -> Iterator[None]:
    """And a time finds the same append."""
    stream = spaced(server, b"one ", b"two ", b"three ")
    first, last = times_of(stream.head())
    yield
    assert times_of(stream.head()) == (first, last)
    assert stream.get(f"time:{moved(first or '', 1)}").body == b"two three "
    stream.append(b"four")
    assert (times_of(stream.head())[1] or "") >= (last or "")
