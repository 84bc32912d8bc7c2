"""TTL and expiry: rules C5, F1, F2, F4, G8."""

from collections.abc import Callable

import pytest

from engines.driving import TEXT, Engine, created
from millstream.protocol.expiry import Lifetime
from millstream.protocol.lifecycle import NameInUse
from millstream.protocol.offsets import NOW
from millstream.protocol.producers import Stamp
from millstream.protocol.streams import NotFound, SoftDeleted

TTL = Lifetime(ttl_s=10)
GONE = NotFound("/s")


def fixed(engine: Engine, after_ms: int) -> Lifetime:
    return Lifetime(expires_at=b"some day", expires_ms=engine.now_ms + after_ms)


def test_a_stream_ends_at_its_deadline_for_every_method(engine: Engine) -> None:
    """F4."""
    uses: list[Callable[[], object]] = [
        lambda: engine.head("/s"),
        lambda: engine.read("/s"),
        lambda: engine.append("/s", b"x"),
        lambda: engine.delete("/s"),
    ]
    for use in uses:
        created(engine.create("/s", lifetime=fixed(engine, 10_000)))
        engine.now_ms += 9_999
        assert engine.stream("/s")
        engine.now_ms += 1
        assert engine.names() == []
        assert use() == GONE


USES: dict[str, Callable[[Engine], object]] = {
    "a read": lambda engine: engine.read("/s"),
    "a read of now": lambda engine: engine.read("/s", NOW),
    "an append": lambda engine: engine.append("/s", b"x"),
    "a closure": lambda engine: engine.append("/s", closes=True),
    "a duplicate": lambda engine: engine.append("/s", b"x", stamp=Stamp(b"p", 0, 0)),
}
NO_USES: dict[str, Callable[[Engine], object]] = {
    "head": lambda engine: engine.head("/s"),
    "a peek": lambda engine: engine.read("/s", peek=True),
    "a listing": lambda engine: engine.listing(),
    "a refused append": lambda engine: engine.append("/s", b"x", content_type=b"a/b"),
}


def with_ttl(engine: Engine, lifetime: Lifetime = TTL) -> None:
    created(engine.create("/s", b"body", lifetime=lifetime))
    engine.append("/s", b"first", stamp=Stamp(b"p", 0, 0))


@pytest.mark.parametrize("use", USES)
def test_use_renews_a_ttl(engine: Engine, use: str) -> None:
    """G8."""
    with_ttl(engine)
    for _ in range(3):
        engine.now_ms += 9_000
        USES[use](engine)
        engine.expire()
    engine.now_ms += 9_999
    engine.expire()
    assert engine.head("/s") != GONE
    engine.now_ms += 1
    assert engine.head("/s") == GONE


@pytest.mark.parametrize("use", NO_USES)
def test_a_look_renews_nothing(engine: Engine, use: str) -> None:
    """G8."""
    with_ttl(engine)
    engine.now_ms += 9_000
    NO_USES[use](engine)
    engine.now_ms += 1_000
    assert engine.head("/s") == GONE


def test_nothing_renews_a_fixed_expiry(engine: Engine) -> None:
    """G8."""
    with_ttl(engine, fixed(engine, 10_000))
    for use in USES.values():
        use(engine)
        engine.now_ms += 1_000
    engine.now_ms += 5_000
    assert engine.head("/s") == GONE


def test_expiring_ends_what_is_due_and_nothing_else(engine: Engine) -> None:
    """F4: and says so to whoever waits."""
    for seconds in (5, 10, 15):
        engine.create(f"/{seconds}", lifetime=fixed(engine, seconds * 1000))
    engine.create("/for ever")
    engine.changes.clear()
    engine.now_ms += 10_000
    engine.expire()
    engine.until(lambda: sorted(engine.changes) == ["/10", "/5"])
    assert engine.names() == ["/15", "/for ever"]
    engine.expire()
    assert sorted(engine.changes) == ["/10", "/5"]


@pytest.mark.parametrize("place", ["in memory", "in files", "restarted"])
def test_many_that_expire_at_the_same_time_are_gone_at_once(engine: Engine, place: str) -> None:
    """F4: however many turns it takes to end them; and those that were renewed, or have forks, stay."""
    for number in range(300):
        engine.create(f"/{number:03}", b"x", lifetime=fixed(engine, 10_000))
    engine.create("/renewed", lifetime=TTL)
    created(engine.fork("/fork", "/150", lifetime=Lifetime(ttl_s=3600)))
    if place != "in memory":
        engine.checkpoint()
    if place == "restarted":
        engine.restart()
    engine.now_ms += 9_000
    engine.read("/renewed")
    engine.now_ms += 1_000
    assert engine.names() == ["/fork", "/renewed"]
    engine.changes.clear()
    assert engine.head("/000") == NotFound("/000")
    engine.until(lambda: engine.changes == ["/000"])
    engine.changes.clear()
    engine.expire()
    assert engine.store.count_streams() == 3, "its fork needs the source"
    engine.until(lambda: len(engine.changes) == 299)
    assert len(set(engine.changes)) == 299
    engine.crash()
    assert engine.names() == ["/fork", "/renewed"]
    assert engine.store.count_streams() == 3
    assert engine.content("/fork") == b"x"


def test_a_damaged_stream_does_not_keep_others_from_ending(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """F4."""
    if engine.log is None:
        return
    for name in ("/a", "/b", "/c"):
        engine.create(name, lifetime=fixed(engine, 10_000))
    engine.restart()
    assert engine.log is not None
    engine.log.catalog._writer.execute("update streams set state = x'c1' where name = '/b'")
    engine.now_ms += 10_000
    engine.expire()
    assert engine.store.count_streams() == 1
    assert "/b is due, and cannot be loaded" in caplog.text


def test_a_deadline_is_real_time_and_survives_a_restart(engine: Engine) -> None:
    """F4."""
    engine.create("/s", lifetime=TTL)
    engine.create("/t", lifetime=fixed(engine, 10_000))
    engine.now_ms += 6_000
    engine.restart()
    assert engine.stream("/s").lifetime == TTL
    engine.now_ms += 3_999
    assert engine.names() == ["/s", "/t"]
    engine.now_ms += 1
    engine.restart()
    assert engine.head("/s") == GONE
    assert engine.head("/t") == NotFound("/t")


def test_a_renewal_survives_a_restart(engine: Engine) -> None:
    """F4, G8."""
    engine.create("/s", lifetime=TTL)
    engine.now_ms += 8_000
    engine.read("/s")
    engine.restart()
    engine.now_ms += 8_000
    assert engine.head("/s") != GONE


def test_an_expired_name_is_free_for_another_stream(engine: Engine) -> None:
    """C5."""
    engine.create("/s", b"old", lifetime=TTL)
    engine.now_ms += 10_000
    created(engine.create("/s", b"new", content_type=b"image/png"))
    assert engine.content("/s") == b"new"
    engine.now_ms += 10_000
    engine.expire()
    assert engine.content("/s") == b"new"


def test_an_expired_source_lives_on_for_its_forks(engine: Engine) -> None:
    """F2."""
    engine.create("/source", b"abc", lifetime=fixed(engine, 10_000))
    created(engine.fork("/fork", "/source", lifetime=fixed(engine, 20_000)))
    engine.now_ms += 10_000
    engine.expire()
    assert engine.head("/source") == SoftDeleted("/source")
    assert engine.create("/source", content_type=TEXT) == NameInUse("/source")
    assert engine.content("/fork") == b"abc"
    engine.now_ms += 10_000
    engine.expire()
    assert engine.head("/fork") == NotFound("/fork")
    assert engine.head("/source") == NotFound("/source")


@pytest.mark.parametrize("own", [Lifetime(), Lifetime(ttl_s=30)])
def test_a_fork_has_its_own_window(engine: Engine, own: Lifetime) -> None:
    """F1: the source's length unless it asks for another, renewed on its own."""
    engine.create("/source", b"abc", lifetime=TTL)
    fork = created(engine.fork("/s", "/source", lifetime=own))
    seconds = own.ttl_s or 10
    assert fork.lifetime.ttl_s == seconds
    engine.now_ms += 9_000
    engine.read("/source")
    engine.now_ms += seconds * 1000 - 9_000
    assert engine.head("/s") == GONE


def test_a_ttl_of_nothing_is_over_at_once(engine: Engine) -> None:
    """C3."""
    created(engine.create("/s", lifetime=Lifetime(ttl_s=0)))
    assert engine.head("/s") == GONE


def test_the_longest_ttl_is_kept_exactly(engine: Engine) -> None:
    """C3."""
    created(engine.create("/s", lifetime=Lifetime(ttl_s=2**53 - 1)))
    engine.restart()
    assert engine.stream("/s").lifetime.ttl_s == 2**53 - 1
