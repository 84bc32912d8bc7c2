"""Which changes the listener is called for: rules F3, F4, L6."""

from collections.abc import Callable

import pytest

from engines.driving import Engine
from millstream.protocol.expiry import Lifetime
from millstream.protocol.producers import Stamp
from millstream.store.pending import when

TOLD: dict[str, Callable[[Engine], object]] = {
    "an append": lambda engine: engine.append("/s", b"x"),
    "a closure": lambda engine: engine.append("/s", closes=True),
    "both": lambda engine: engine.append("/s", b"x", closes=True),
    "a deletion": lambda engine: engine.delete("/s"),
    "a soft deletion": lambda engine: engine.delete("/source"),
}
NOT_TOLD: dict[str, Callable[[Engine], object]] = {
    "a read": lambda engine: engine.read("/s"),
    "a look": lambda engine: engine.head("/s"),
    "a duplicate": lambda engine: engine.append("/s", b"x", stamp=Stamp(b"p", 0, 0)),
    "a refusal": lambda engine: engine.append("/s", b"x", content_type=b"a/b"),
    "the same creation": lambda engine: engine.create("/s"),
    "a refused creation": lambda engine: engine.create("/s", closed=True),
    "a missing stream": lambda engine: engine.delete("/nowhere"),
    "nothing to expire": lambda engine: engine.expire(),
}


@pytest.fixture
def quiet(engine: Engine) -> Engine:
    """An engine with a few streams, and no call of the listener yet."""
    engine.create("/s")
    engine.append("/s", b"first", stamp=Stamp(b"p", 0, 0))
    engine.create("/source", b"abc")
    engine.fork("/fork", "/source")
    engine.changes.clear()
    return engine


@pytest.mark.parametrize("change", TOLD)
def test_a_change_is_told_once_under_its_own_name(quiet: Engine, change: str) -> None:
    """L6, F4."""
    TOLD[change](quiet)
    assert quiet.changes == ["/source" if "soft" in change else "/s"]


@pytest.mark.parametrize("no_change", NOT_TOLD)
def test_what_changes_nothing_is_not_told(quiet: Engine, no_change: str) -> None:
    """L6."""
    NOT_TOLD[no_change](quiet)
    assert quiet.changes == []


def test_a_new_stream_is_told(quiet: Engine) -> None:
    """L6: a reader may still wait under the name of a stream that is gone."""
    quiet.create("/new")
    quiet.fork("/new fork", "/source")
    assert quiet.changes == ["/new", "/new fork"]


def test_a_sources_change_is_not_its_forks(quiet: Engine) -> None:
    """F3: nor the other way round."""
    quiet.append("/source", b"more")
    quiet.append("/source", closes=True)
    assert set(quiet.changes) == {"/source"}
    quiet.changes.clear()
    quiet.append("/fork", b"own")
    assert quiet.changes == ["/fork"]


def test_an_expiry_is_told_by_whoever_finds_it(quiet: Engine) -> None:
    """F4."""
    for name in ("/reaped", "/found"):
        quiet.create(name, lifetime=Lifetime(ttl_s=1))
    quiet.changes.clear()
    quiet.now_ms += 1_000
    quiet.head("/found")
    quiet.until(lambda: quiet.changes == ["/found"])
    quiet.expire()
    quiet.until(lambda: quiet.changes == ["/found", "/reaped"])


def test_what_is_told_can_be_seen(engine: Engine) -> None:
    """L6: the listener is called once the change is durable, and visible by then."""
    seen: list[tuple[int, bool]] = []
    engine.create("/s")

    def look(name: str) -> None:
        when(engine.store.head(name, engine.now_ms), lambda found: seen.append((found.tail, found.closed)))

    engine.store.listener = look
    engine.append("/s", b"ab")
    engine.until(lambda: len(seen) == 1)
    engine.append("/s", b"c", closes=True)
    engine.until(lambda: len(seen) == 2)
    assert seen == [(2, False), (3, True)]
