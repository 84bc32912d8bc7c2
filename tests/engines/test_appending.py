"""Appending, closing and producers: rules A1 to A10, R2 to R4."""

import pytest

from engines.driving import JSON, Engine
from millstream.protocol.conditions import OffsetConflict
from millstream.protocol.producers import Fenced, Gap, Stamp
from millstream.protocol.streams import (
    AlreadyClosed,
    Append,
    Closed,
    Duplicate,
    SeqRegressed,
    TypeMismatch,
)


def test_appends_add_up(engine: Engine) -> None:
    """A1."""
    engine.create("/s", b"ab")
    assert engine.append("/s", b"cd") == Append(b"cd", 4, False, None, None)
    assert engine.append("/s", b"e") == Append(b"e", 5, False, None, None)
    assert engine.content("/s") == b"abcde"
    assert engine.stream("/s").tail == 5


def test_a_json_batch_is_kept_byte_for_byte(engine: Engine) -> None:
    """A10."""
    engine.create("/s", b'[{"a": 18446744073709551617}]', content_type=JSON)
    engine.append("/s", b'[1.50, "\\ud800" ,[2, 3]]', content_type=b"application/json")
    assert engine.content("/s") == b'{"a": 18446744073709551617},1.50,"\\ud800",[2, 3],'


def test_a_closed_stream_takes_no_more(engine: Engine) -> None:
    """A5, A6."""
    engine.create("/s", b"ab")
    assert engine.append("/s", b"c", closes=True) == Append(b"c", 3, True, None, None)
    assert engine.append("/s", b"d") == Closed(3)
    assert engine.append("/s", b"d", closes=True) == Closed(3)
    assert engine.append("/s", closes=True) == AlreadyClosed(3)
    assert engine.stream("/s").closed
    found = engine.chunk("/s")
    assert (found.data, found.closed, found.at_end) == (b"abc", True, True)


def test_a_stream_may_be_closed_without_data(engine: Engine) -> None:
    """A4."""
    engine.create("/s")
    assert engine.append("/s", closes=True, content_type=b"") == Append(b"", 0, True, None, None)
    assert engine.chunk("/s").at_end


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"content_type": b"text/html"}, TypeMismatch(b"text/plain", b"text/html")),
        ({"stamp": Stamp(b"p", 0, 0)}, Fenced(1)),
        ({"stamp": Stamp(b"p", 1, 5)}, Gap(2, 5)),
        ({"seq": b"a"}, SeqRegressed(b"b", b"a", 2)),
        ({"expected": 1}, OffsetConflict(1, 2)),
        ({"expected": 3}, OffsetConflict(3, 2)),
    ],
)
def test_a_refused_append_changes_nothing(engine: Engine, wrong: dict[str, bytes], refusal: object) -> None:
    """R4, X6."""
    engine.create("/s")
    engine.append("/s", b"1", stamp=Stamp(b"p", 1, 0), seq=b"b")
    engine.append("/s", b"2", stamp=Stamp(b"p", 1, 1))
    before = engine.stream("/s")
    assert engine.append("/s", b"no", **wrong) == refusal
    assert engine.stream("/s") == before
    assert engine.content("/s") == b"12"
    assert isinstance(engine.append("/s", b"3", stamp=Stamp(b"p", 1, 2), seq=b"c"), Append)


def test_retrying_every_append_changes_nothing(engine: Engine) -> None:
    """R2, R3: also after a restart."""
    engine.create("/s")
    for seq, data in enumerate([b"a", b"b", b"c"]):
        for _ in range(2):
            engine.append("/s", data, stamp=Stamp(b"p", 0, seq))
    engine.restart()
    assert engine.append("/s", b"c", stamp=Stamp(b"p", 0, 2)) == Duplicate(3, False, 0, 2)
    assert engine.append("/s", b"a", stamp=Stamp(b"p", 0, 0)) == Duplicate(3, False, 0, 2)
    assert engine.content("/s") == b"abc"


def test_producers_do_not_know_each_other(engine: Engine) -> None:
    """R2: nor do streams."""
    for name in ("/s", "/t"):
        engine.create(name)
        for producer in (b"p", b"q", b"\xff\x00"):
            assert isinstance(engine.append(name, producer, stamp=Stamp(producer, 7, 0)), Append)
    assert engine.content("/s") == engine.content("/t") == b"pq\xff\x00"


def test_the_tuple_that_closed_is_recognised_for_ever(engine: Engine) -> None:
    """A6 to A8: also after a restart, and whatever body comes with it."""
    engine.create("/s")
    closing = Stamp(b"p", 0, 0)
    assert engine.append("/s", b"end", closes=True, stamp=closing) == Append(b"end", 3, True, closing, None)
    for _ in range(2):
        duplicate = Duplicate(3, True, 0, 0)
        assert engine.append("/s", b"end", closes=True, stamp=closing) == duplicate
        assert engine.append("/s", b"other", closes=True, stamp=closing) == duplicate
        assert engine.append("/s", closes=True, stamp=closing) == duplicate
        assert engine.append("/s", closes=True, stamp=Stamp(b"p", 0, 1)) == Closed(3)
        assert engine.append("/s", closes=True, stamp=Stamp(b"q", 0, 0)) == Closed(3)
        engine.restart()
    assert engine.content("/s") == b"end"


def test_a_seq_that_was_seen_stays_seen(engine: Engine) -> None:
    """A9: bytewise, also after a restart."""
    engine.create("/s")
    for seq in (b"10", b"9", b"9\xff"):
        assert isinstance(engine.append("/s", b".", seq=seq), Append)
    engine.restart()
    assert engine.append("/s", b".", seq=b"9\xff") == SeqRegressed(b"9\xff", b"9\xff", 3)
    assert engine.append("/s", b".", seq=b"10") == SeqRegressed(b"9\xff", b"10", 3)
