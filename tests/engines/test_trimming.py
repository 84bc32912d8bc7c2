"""Trims by request: rule X10, with O4 and what forks keep, on every engine."""

import pytest

from engines.driving import JSON, Engine
from millstream.protocol.expiry import Lifetime
from millstream.protocol.forks import ForkBeforeStart
from millstream.protocol.offsets import NOW, START
from millstream.protocol.reads import OffsetGone
from millstream.protocol.retention import Retention
from millstream.protocol.streams import NotFound, SoftDeleted
from millstream.protocol.trims import TrimBeyondTail, Trimmed

WHOLE = b"".join(bytes([letter]) * 600 for letter in b"abcdefgh")


@pytest.fixture
def stream(engine: Engine) -> Engine:
    """An engine with the stream /s of eight appends of 600 bytes."""
    engine.create("/s")
    for letter in b"abcdefgh":
        engine.append("/s", bytes([letter]) * 600)
    return engine


def begins(decision: object) -> int:
    assert isinstance(decision, Trimmed), decision
    return decision.start


@pytest.mark.parametrize(
    ("before", "start"),
    [(START, 0), (0, 0), (1, 0), (599, 0), (600, 600), (1199, 600), (4799, 4200), (4800, 4800), (NOW, 4800)],
)
def test_whole_appends_before_an_offset_go(stream: Engine, before: int, start: int) -> None:
    """X10: the append that holds the offset stays, `now` drops everything, `-1` nothing."""
    assert begins(stream.trim("/s", before)) == start
    for _ in range(2):
        assert stream.content("/s") == WHOLE[start:]
        assert (stream.stream("/s").start, stream.stream("/s").tail) == (start, 4800)
        if start:
            assert stream.read("/s", start - 1) == OffsetGone(start)
        stream.checkpoint()
        stream.restart()


def test_what_is_gone_already_can_be_dropped_again(stream: Engine) -> None:
    """X10: a retry is harmless, and so is an older request that comes late."""
    assert begins(stream.trim("/s", 1800)) == 1800
    assert begins(stream.trim("/s", 1800)) == 1800
    assert begins(stream.trim("/s", 600)) == 1800
    assert stream.content("/s") == WHOLE[1800:]


def test_a_trim_beyond_the_tail_is_refused(stream: Engine) -> None:
    """X10."""
    assert stream.trim("/s", 4801) == TrimBeyondTail(4800)
    assert stream.content("/s") == WHOLE


def test_a_trimmed_stream_grows_on(stream: Engine) -> None:
    """X10, O1."""
    stream.trim("/s", NOW)
    stream.checkpoint()
    stream.append("/s", b"i" * 600)
    stream.restart()
    assert (stream.content("/s"), stream.stream("/s").start) == (b"i" * 600, 4800)
    assert begins(stream.trim("/s", 5400)) == 5400
    assert stream.content("/s") == b""


def test_a_closed_stream_can_be_trimmed(stream: Engine) -> None:
    """X10."""
    stream.append("/s", closes=True)
    assert begins(stream.trim("/s", 4200)) == 4200
    found = stream.chunk("/s")
    assert (found.data, found.at_end) == (WHOLE[4200:], True)


def test_forks_keep_what_they_share(stream: Engine) -> None:
    """X10, F1: as with retention, also those of a stream that has no limits."""
    stream.fork("/f", "/s", 1800)
    stream.trim("/s", 4200)
    for _ in range(2):
        assert stream.content("/f") == WHOLE[:1800]
        assert stream.content("/s") == WHOLE[4200:]
        assert stream.fork("/g", "/s", 1800) == ForkBeforeStart(4200)
        stream.checkpoint()
        stream.restart()
    assert begins(stream.trim("/f", 600)) == 600
    assert stream.content("/f") == WHOLE[600:1800]
    stream.delete("/f")
    stream.checkpoint()
    assert stream.stream("/s").shared is None
    assert stream.content("/s") == WHOLE[4200:]


def test_a_trim_of_a_json_stream_keeps_whole_appends(engine: Engine) -> None:
    """X10, G4."""
    engine.create("/j", content_type=JSON)
    engine.append("/j", b"[1,2]", content_type=JSON)
    engine.append("/j", b"[3,4]", content_type=JSON)
    assert begins(engine.trim("/j", 6)) == 4
    assert engine.content("/j") == b"3,4,"


def test_a_trim_renews_a_ttl(engine: Engine) -> None:
    """X10, G8: it is a POST."""
    engine.create("/t", b"a", lifetime=Lifetime(ttl_s=10))
    engine.now_ms += 9_000
    engine.trim("/t", NOW)
    engine.now_ms += 9_000
    assert engine.content("/t") == b""


def test_retention_goes_on_after_a_trim(engine: Engine) -> None:
    """X10, X4."""
    engine.create("/r", retention=Retention(bytes=1000, seconds=60))
    for letter in b"ab":
        engine.append("/r", bytes([letter]) * 600)
    engine.trim("/r", 600)
    assert engine.content("/r") == b"b" * 600
    engine.now_ms += 70_000
    engine.expire()
    engine.append("/r", b"c")
    assert engine.content("/r") == b"c"


def test_there_is_nothing_to_trim(stream: Engine) -> None:
    """X10, F2."""
    assert stream.trim("/none", NOW) == NotFound("/none")
    stream.fork("/f", "/s", 600)
    stream.delete("/s")
    assert stream.trim("/s", NOW) == SoftDeleted("/s")
    assert stream.content("/f") == WHOLE[:600]


def test_waiting_readers_are_told(stream: Engine) -> None:
    """X10, L6: what they hold may be gone."""
    stream.changes.clear()
    stream.trim("/s", 600)
    assert stream.changes == ["/s"]
