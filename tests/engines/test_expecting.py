"""Compare and append: rule X6, on every engine."""

from collections.abc import Callable

from engines.driving import Engine
from millstream.protocol.conditions import OffsetConflict
from millstream.protocol.parts import Commit, PartMissing
from millstream.protocol.producers import Stamp
from millstream.protocol.streams import AlreadyClosed, Append, Closed, Duplicate


def test_an_append_happens_where_it_is_expected_and_nowhere_else(
    engine: Engine, meanwhile: Callable[[], None]
) -> None:
    engine.create("/s", b"ab")
    assert isinstance(engine.append("/s", b"c", expected=2), Append)
    meanwhile()
    assert engine.append("/s", b"d", expected=2) == OffsetConflict(2, 3)
    assert engine.append("/s", b"d", expected=4) == OffsetConflict(4, 3)
    meanwhile()
    assert isinstance(engine.append("/s", b"d", expected=3), Append)
    assert engine.content("/s") == b"abcd"


def test_a_close_happens_where_it_is_expected(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/s", b"ab")
    assert engine.append("/s", closes=True, expected=1) == OffsetConflict(1, 2)
    assert not engine.stream("/s").closed
    assert isinstance(engine.append("/s", closes=True, expected=2), Append)
    meanwhile()
    assert engine.append("/s", closes=True, expected=1) == AlreadyClosed(2)
    assert engine.append("/s", b"c", expected=1) == Closed(2)


def test_a_repeated_append_succeeds_whatever_was_expected(
    engine: Engine, meanwhile: Callable[[], None]
) -> None:
    engine.create("/s")
    stamp = Stamp(b"p", 0, 0)
    assert isinstance(engine.append("/s", b"a", stamp=stamp, expected=0), Append)
    meanwhile()
    assert engine.append("/s", b"a", stamp=stamp, expected=0) == Duplicate(1, False, 0, 0)
    meanwhile()
    assert engine.append("/s", b"b", stamp=Stamp(b"p", 0, 1), expected=0) == OffsetConflict(0, 1)
    assert isinstance(engine.append("/s", b"b", stamp=Stamp(b"p", 0, 1), expected=1), Append)


def test_a_commit_of_parts_happens_where_it_is_expected(
    engine: Engine, meanwhile: Callable[[], None]
) -> None:
    engine.create("/s", b"ab")
    engine.stage("/s", "x", b"xyz")
    assert engine.commit("/s", "x", expected=0) == OffsetConflict(0, 2)
    meanwhile()
    assert isinstance(engine.commit("/s", "x", expected=2), Commit)
    meanwhile()
    assert engine.commit("/s", "x", expected=2) == PartMissing("x")
    assert engine.content("/s") == b"abxyz"


def test_a_fork_has_a_tail_of_its_own(engine: Engine) -> None:
    engine.create("/s", b"ab")
    engine.fork("/f", "/s")
    assert isinstance(engine.append("/s", b"c", expected=2), Append)
    assert isinstance(engine.append("/f", b"d", expected=2), Append)
    assert engine.append("/f", b"e", expected=2) == OffsetConflict(2, 3)
