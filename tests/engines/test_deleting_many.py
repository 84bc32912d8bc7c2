"""Deletions of many streams: rule X11."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from engines.driving import Engine, created
from millstream.protocol.expiry import Lifetime
from millstream.protocol.lifecycle import NameInUse
from millstream.protocol.streams import NotFound, SoftDeleted
from millstream.store.base import DeletedPage
from millstream.store.quotas import Quotas, parse_quota

NAMES = ["/a", "/a/1", "/a/1/x", "/a/2", "/b", "/b/1", "/ä", "/😀"]

AGAIN: dict[str, Callable[[Engine], None]] = {
    "in memory": lambda _engine: None,
    "in files": Engine.checkpoint,
    "restarted": Engine.restart,
    "crashed": Engine.crash,
}


@pytest.fixture(params=AGAIN)
def filled(engine: Engine, request: pytest.FixtureRequest) -> Engine:
    """An engine with eight streams, wherever it has them."""
    for name in (*NAMES[3:], *NAMES[:3]):
        engine.create(name, b"content")
    AGAIN[request.param](engine)
    return engine


@pytest.mark.parametrize(
    ("prefix", "glob", "kept"),
    [
        ("/", "", []),
        ("/a", "", NAMES[4:]),
        ("/a/", "", [NAMES[0], *NAMES[4:]]),
        ("/c", "", NAMES),
        ("", "/*/1", [name for name in NAMES if name not in ("/a/1", "/b/1")]),
        ("/b", "/*/1", [name for name in NAMES if name != "/b/1"]),
    ],
)
def test_what_matches_is_deleted_and_nothing_else(
    filled: Engine, prefix: str, glob: str, kept: list[str]
) -> None:
    """X11: for good, and a repetition deletes nothing more."""
    assert filled.delete_some(prefix, glob=glob) == DeletedPage(len(NAMES) - len(kept), None)
    assert filled.names() == kept
    assert filled.store.count_streams() == len(kept)
    assert filled.delete_some(prefix, glob=glob) == DeletedPage(0, None)
    filled.crash()
    assert filled.names() == kept
    assert all(filled.content(name) == b"content" for name in kept)
    for name in set(NAMES) - set(kept):
        assert filled.head(name) == NotFound(name)
        created(filled.create(name, b"another"))
        assert filled.content(name) == b"another"


@pytest.mark.parametrize("limit", [1, 3, 8, 9])
def test_pages_delete_everything_once(filled: Engine, limit: int) -> None:
    """X11: none deletes more than it may, and each says where to continue."""
    deleted: list[int] = []
    after: str | None = ""
    while after is not None:
        page = filled.delete_some("/", after=after, limit=limit)
        assert isinstance(page, DeletedPage)
        deleted.append(page.deleted)
        after = page.next_after
    assert sum(deleted) == len(NAMES)
    assert max(deleted) <= limit
    assert filled.names() == []


def test_what_may_not_be_deleted_stays(filled: Engine) -> None:
    """X11."""
    assert filled.delete_some(may_delete=lambda name: name.startswith("/a/")) == DeletedPage(3, None)
    assert filled.names() == [name for name in NAMES if not name.startswith("/a/")]


def test_readers_of_all_of_them_are_woken(filled: Engine) -> None:
    """L6."""
    filled.changes.clear()
    filled.delete_some("/a")
    assert sorted(filled.changes) == NAMES[:4]


@pytest.mark.parametrize("again", ["in memory", "in files"])
def test_a_source_is_kept_for_forks_that_are_not_deleted(engine: Engine, again: str) -> None:
    """F2, X11."""
    engine.create("/a/source", b"abc")
    created(engine.fork("/b/fork", "/a/source"))
    AGAIN[again](engine)
    assert engine.delete_some("/a") == DeletedPage(1, None)
    assert engine.head("/a/source") == SoftDeleted("/a/source")
    assert engine.delete_some("/a") == DeletedPage(0, None), "it is deleted already"
    engine.crash()
    assert engine.create("/a/source") == NameInUse("/a/source")
    assert engine.content("/b/fork") == b"abc"
    assert engine.delete_some("/b") == DeletedPage(1, None)
    assert engine.head("/a/source") == NotFound("/a/source")
    assert engine.store.count_streams() == 0


@pytest.mark.parametrize("order", [["/1", "/2", "/3"], ["/3", "/2", "/1"], ["/2", "/3", "/1"]])
@pytest.mark.parametrize("again", AGAIN)
def test_sources_and_forks_are_deleted_together(engine: Engine, order: list[str], again: str) -> None:
    """F2, X11: whichever of them comes first."""
    engine.create(order[0], b"abc")
    for source, fork in pairwise(order):
        created(engine.fork(fork, source))
    engine.create("/4", b"alone")
    AGAIN[again](engine)
    assert engine.delete_some() == DeletedPage(4, None)
    assert engine.store.count_streams() == 0
    engine.crash()
    assert engine.names() == []
    assert engine.store.count_streams() == 0


def test_an_expired_stream_is_not_counted(engine: Engine) -> None:
    """X11."""
    engine.create("/a", lifetime=Lifetime(ttl_s=1))
    engine.create("/b")
    engine.now_ms += 1_000
    assert engine.delete_some() == DeletedPage(1, None)


def test_parts_go_with_their_streams(engine: Engine) -> None:
    """X3, X11."""
    engine.create("/a")
    engine.stage("/a", "1", b"part")
    engine.checkpoint()
    assert engine.delete_some() == DeletedPage(1, None)
    created(engine.create("/a"))
    engine.crash()
    assert engine.stage("/a", "1", b"another part") != NotFound("/a")
    engine.commit("/a", "1")
    assert engine.content("/a") == b"another part"


def test_quotas_count_what_is_left(engine: Engine) -> None:
    engine.store.quotas = Quotas(prefixes=(parse_quota("/a=2"),))
    for _ in range(2):
        created(engine.create("/a/1"))
        created(engine.create("/a/2"))
        assert engine.delete_some("/a/") == DeletedPage(2, None)


def test_more_than_one_turn_deletes(engine: Engine) -> None:
    """X11: a page takes as many turns of the event loop as it needs, and ends at its limit."""
    for number in range(700):
        engine.create(f"/{number:03}")
    page = engine.delete_some(may_delete=lambda name: len([name] * 20_000) > 0, limit=600)
    assert isinstance(page, DeletedPage)
    while page.next_after is not None and page.deleted < 600:
        more = engine.delete_some(after=page.next_after, limit=600 - page.deleted)
        assert isinstance(more, DeletedPage)
        page = DeletedPage(page.deleted + more.deleted, more.next_after)
    assert page == DeletedPage(600, "/599")
    assert engine.store.count_streams() == 100
