"""Changing what lives: rule X10, with C1, C3, G8, F1 and X4, on every engine."""

from typing import Any

import pytest

from engines.driving import Engine, created
from millstream.protocol.configuration import Configured
from millstream.protocol.errors import MalformedError
from millstream.protocol.expiry import FOREVER, Lifetime
from millstream.protocol.lifecycle import ConfigMismatch, Exists
from millstream.protocol.offsets import NOW
from millstream.protocol.retention import KEEP_ALL, Retention
from millstream.protocol.streams import NotFound, SoftDeleted, Stream

TEN_SECONDS = Lifetime(ttl_s=10)
LATER = "1970-01-01T01:00:00Z"
LATER_MS = 3_600_000


def configured(decision: object) -> Stream:
    assert isinstance(decision, Configured), decision
    return decision.stream


def settle(engine: Engine) -> None:
    """Let the engine trim, and wait until readers may know."""
    engine.expire()
    engine.append("/anything", b".")
    engine.append("/anything", b".")


@pytest.fixture
def changing(engine: Engine) -> Engine:
    """An engine with the streams /anything and /s."""
    engine.create("/anything")
    engine.create("/s", b"abc")
    return engine


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"ttl": "60"}, {"lifetime": Lifetime(ttl_s=60), "deadline_ms": 1_060_000}),
        (
            {"expires_at": LATER},
            {"lifetime": Lifetime(expires_at=LATER.encode(), expires_ms=LATER_MS), "deadline_ms": LATER_MS},
        ),
        ({"retain_bytes": "1000"}, {"retention": Retention(bytes=1000)}),
        ({"retain_seconds": "60"}, {"retention": Retention(seconds=60)}),
        ({"attributes": '{"team":"a"}'}, {"attributes": b'{"team":"a"}'}),
        (
            {"ttl": "60", "retain_bytes": "5", "attributes": "{}"},
            {"lifetime": Lifetime(ttl_s=60), "retention": Retention(bytes=5), "attributes": b""},
        ),
        ({}, {"lifetime": FOREVER, "retention": KEEP_ALL, "attributes": b""}),
        ({"ttl": "none", "expires_at": "none", "retain_bytes": "none"}, {"lifetime": FOREVER}),
    ],
)
def test_what_is_named_changes_and_stays_changed(
    changing: Engine, fields: dict[str, str], state: dict[str, Any]
) -> None:
    """X10: also after a checkpoint, a restart and a crash."""
    answer = configured(changing.configure("/s", **fields))
    for found in (answer, *restarted(changing)):
        assert {name: getattr(found, name) for name in state} == state
        assert (found.tail, found.closed) == (3, False)
    assert changing.content("/s") == b"abc"


def restarted(engine: Engine) -> list[Stream]:
    found = [engine.stream("/s")]
    engine.crash()
    found.append(engine.stream("/s"))
    engine.checkpoint()
    engine.restart()
    return [*found, engine.stream("/s")]


def test_each_limit_is_removed_by_itself(changing: Engine) -> None:
    """X10: `none` removes, what is not named stays."""
    changing.configure("/s", retain_bytes="10", retain_seconds="60", ttl="9")
    assert configured(changing.configure("/s", retain_bytes="none")).retention == Retention(seconds=60)
    assert configured(changing.configure("/s", expires_at="none")).lifetime == Lifetime(ttl_s=9)
    assert configured(changing.configure("/s", expires_at=LATER)).lifetime.ttl_s is None
    assert configured(changing.configure("/s", ttl="none")).lifetime.expires_ms == LATER_MS
    assert configured(changing.configure("/s", ttl="5", expires_at="none")).deadline_ms == 1_005_000
    assert changing.stream("/s").retention == Retention(seconds=60)


def test_a_ttl_that_is_set_begins_anew(engine: Engine) -> None:
    """X10, G8: a PATCH without one renews nothing."""
    engine.create("/t", b"x", lifetime=TEN_SECONDS)
    engine.now_ms += 9_000
    engine.configure("/t", ttl="10")
    engine.now_ms += 9_000
    engine.configure("/t", attributes='{"a":1}')
    assert engine.stream("/t").deadline_ms == engine.now_ms + 1_000
    engine.now_ms += 1_000
    assert engine.head("/t") == NotFound("/t")


def test_a_stream_that_lived_for_ever_expires_in_time_and_the_other_way_round(changing: Engine) -> None:
    """X10, F4: without being asked for."""
    changing.create("/short", b"x", lifetime=TEN_SECONDS)
    changing.configure("/short", ttl="none")
    changing.configure("/s", ttl="10")
    changing.checkpoint()
    changing.restart()
    changing.now_ms += 10_000
    changing.changes.clear()
    settle(changing)
    assert "/s" in changing.changes
    assert changing.head("/s") == NotFound("/s")
    assert changing.content("/short") == b"x"


def test_an_expiry_in_the_past_ends_the_stream(changing: Engine) -> None:
    """X10, C3."""
    changing.configure("/s", expires_at="1970-01-01T00:00:01Z")
    assert changing.head("/s") == NotFound("/s")


@pytest.mark.parametrize("saved", [False, True])
def test_a_limit_that_is_set_later_is_applied(changing: Engine, saved: bool) -> None:
    """X10, X4."""
    for letter in b"abcdefgh":
        changing.append("/s", bytes([letter]) * 600)
    if saved:
        changing.checkpoint()
    changing.configure("/s", retain_bytes="1000")
    settle(changing)
    for _ in range(2):
        assert changing.content("/s") == b"g" * 600 + b"h" * 600
        changing.checkpoint()
        changing.restart()
    changing.configure("/s", retain_bytes="none")
    for letter in b"ijkl":
        changing.append("/s", bytes([letter]) * 600)
    settle(changing)
    assert len(changing.content("/s")) == 3600


def test_bytes_without_a_time_are_as_old_as_the_newest(changing: Engine) -> None:
    """X10, X4: nothing goes too early, and what is old enough goes at once."""
    changing.now_ms += 30_000
    changing.append("/s", b"d")
    changing.configure("/s", retain_seconds="60")
    changing.now_ms += 59_000
    settle(changing)
    assert changing.content("/s") == b"abcd"
    changing.now_ms += 2_000
    settle(changing)
    assert changing.content("/s") == b""
    changing.append("/s", b"e")
    changing.configure("/s", retain_seconds="none")
    changing.now_ms += 100_000
    changing.configure("/s", retain_seconds="60")
    settle(changing)
    assert changing.content("/s") == b""


def test_attributes_are_merged_by_name(engine: Engine) -> None:
    """X10: null removes one; a creation sets them, and a later one leaves them alone."""
    stream = created(engine.create("/s", attributes={"team": "a", "tier": 1, "gone": None}))
    assert stream.attributes == b'{"team":"a","tier":1}'
    engine.configure("/s", attributes='{"tier":null,"owner":"\u00e4","hot":true,"share":0.5}')
    wanted = b'{"team":"a","owner":"\\u00e4","hot":true,"share":0.5}'
    assert [found.attributes for found in restarted(engine)] == [wanted] * 3
    again = engine.create("/s", attributes={"team": "b"})
    assert isinstance(again, Exists)
    assert again.stream.attributes == wanted
    assert (
        configured(
            engine.configure("/s", attributes='{"team":null,"owner":null,"hot":null,"share":null}')
        ).attributes
        == b""
    )


def test_attributes_that_become_too_large_change_nothing(changing: Engine) -> None:
    """X10."""
    changing.configure("/s", attributes='{"a":"%s"}' % ("x" * 3000))
    with pytest.raises(MalformedError):
        changing.configure("/s", attributes='{"b":"%s"}' % ("x" * 3000), ttl="1")
    assert changing.stream("/s").lifetime == FOREVER


def test_a_listing_selects_by_attributes(engine: Engine) -> None:
    """X10, X2."""
    engine.create("/1", attributes={"team": "a", "tier": 1})
    engine.create("/2", attributes={"team": "a", "tier": 2, "hot": True})
    engine.create("/3", attributes={"team": "b"})
    engine.create("/4")
    found = {
        "1 2": {"team": "a"},
        "2": {"team": "a", "tier": "2"},
        "1": {"tier": "1"},
        "": {"team": "c"},
        "1 2 3 4": {},
    }
    for wanted, attributes in found.items():
        page = engine.listing(attributes=attributes)
        assert " ".join(stream.name[1:] for stream in page.streams) == wanted
    assert [stream.name for stream in engine.listing(attributes={"hot": "true"}).streams] == ["/2"]
    page = engine.listing(attributes={"team": "a"}, limit=1)
    assert ([stream.name for stream in page.streams], page.next_after) == (["/1"], "/1")


def test_creating_again_succeeds_with_what_was_and_with_what_is(changing: Engine) -> None:
    """X10, C1: for a program that creates its streams when it starts."""
    minute = Lifetime(ttl_s=60)
    changing.create("/t", lifetime=TEN_SECONDS, retention=Retention(bytes=10))
    changing.configure("/t", ttl="60", retain_bytes="none", retain_seconds="5")
    for _ in range(2):
        assert isinstance(changing.create("/t", lifetime=TEN_SECONDS, retention=Retention(bytes=10)), Exists)
        assert isinstance(changing.create("/t", lifetime=minute, retention=Retention(seconds=5)), Exists)
        refused = changing.create("/t", lifetime=Lifetime(ttl_s=61), retention=Retention(bytes=10))
        assert refused == ConfigMismatch("/t", "TTL or expiry")
        assert changing.create("/t", lifetime=minute) == ConfigMismatch("/t", "retention")
        assert changing.stream("/t").lifetime == minute
        changing.checkpoint()
        changing.restart()


def test_forks_keep_what_they_have_and_later_ones_inherit_what_is_set(changing: Engine) -> None:
    """X10, F1."""
    changing.fork("/early", "/s")
    changing.configure("/s", ttl="60", retain_bytes="1000", attributes='{"team":"a","tier":1}')
    assert changing.stream("/early").lifetime == FOREVER
    changing.fork("/late", "/s", attributes={"tier": None, "own": True})
    late = changing.stream("/late")
    assert (late.lifetime, late.retention) == (Lifetime(ttl_s=60), Retention(bytes=1000))
    assert late.attributes == b'{"team":"a","own":true}'


def test_forks_keep_what_a_limit_that_is_set_later_trims(changing: Engine) -> None:
    """X10, F1."""
    changing.fork("/f", "/s")
    changing.append("/s", b"d" * 5000)
    changing.configure("/s", retain_bytes="10")
    settle(changing)
    changing.checkpoint()
    changing.restart()
    assert (changing.content("/f"), changing.content("/s")) == (b"abc", b"d" * 5000)


def test_a_closed_stream_can_be_changed_and_a_deleted_one_cannot(changing: Engine) -> None:
    """X10, F2."""
    changing.append("/s", closes=True)
    assert configured(changing.configure("/s", ttl="60")).closed
    changing.fork("/f", "/s")
    changing.delete("/s")
    assert changing.configure("/s", ttl="1") == SoftDeleted("/s")
    assert changing.configure("/none", ttl="1") == NotFound("/none")


def test_a_change_is_told_so_that_no_answer_is_cached_for_too_long(changing: Engine) -> None:
    """X10, G8: an answer of a stream without a TTL is sent again without a look at the stream."""
    changing.changes.clear()
    changing.configure("/s", ttl="60")
    assert changing.changes == ["/s"]
    changing.changes.clear()
    changing.configure("/s", attributes="{}")
    assert changing.changes == []


def test_a_read_renews_a_ttl_that_was_set_later(changing: Engine) -> None:
    """X10, G8."""
    changing.configure("/s", ttl="10")
    for _ in range(3):
        changing.now_ms += 9_000
        changing.chunk("/s", NOW)
        changing.crash()
    assert changing.content("/s") == b"abc"
