"""Listing: rule X2."""

import pytest

from engines.driving import Engine
from millstream.protocol.expiry import Lifetime

NAMES = ["/a", "/a/1", "/a/1/x", "/a/2", "/b", "/b/1", "/ä", "/😀"]


@pytest.fixture
def listed(engine: Engine) -> Engine:
    """An engine with eight streams, created in no order."""
    for name in (*NAMES[3:], *NAMES[:3]):
        engine.create(name)
    return engine


def test_names_come_in_order(listed: Engine) -> None:
    """X2: before and after a restart, and whatever was added since."""
    assert listed.names() == NAMES
    listed.restart()
    listed.create("/a/11")
    assert listed.names() == sorted([*NAMES, "/a/11"])


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("/", NAMES),
        ("/a", NAMES[:4]),
        ("/a/", NAMES[1:4]),
        ("/a/1", NAMES[1:3]),
        ("/😀", NAMES[-1:]),
        ("/c", []),
        ("a", []),
        ("/a%", []),
        ("/_", []),
    ],
)
def test_a_prefix_is_plain_text(listed: Engine, prefix: str, names: list[str]) -> None:
    """X2."""
    assert listed.names(prefix) == names


@pytest.mark.parametrize(
    ("prefix", "glob", "names"),
    [
        ("", "/*", ["/a", "/b", "/ä", "/😀"]),
        ("", "/*/1", ["/a/1", "/b/1"]),
        ("", "/a/**", ["/a", "/a/1", "/a/1/x", "/a/2"]),
        ("/b", "/*/1", ["/b/1"]),
        ("", "/nothing", []),
    ],
)
def test_a_glob_chooses(listed: Engine, prefix: str, glob: str, names: list[str]) -> None:
    """X2."""
    assert [stream.name for stream in listed.listing(prefix, glob=glob).streams] == names


@pytest.mark.parametrize("limit", range(1, 10))
@pytest.mark.parametrize("glob", [None, "/*"])
def test_pages_put_together_are_the_listing(listed: Engine, limit: int, glob: str | None) -> None:
    """X2: none is missed, none comes twice, and no page is larger than asked for."""
    names: list[str] = []
    after: str | None = ""
    for _ in range(len(NAMES) + 1):
        assert after is not None
        page = listed.listing(glob=glob, after=after, limit=limit)
        assert len(page.streams) <= limit
        names += [stream.name for stream in page.streams]
        after = page.next_after
        if after is None:
            break
    assert after is None
    assert names == [stream.name for stream in listed.listing(glob=glob).streams]


def test_a_cursor_need_not_exist_any_more(listed: Engine) -> None:
    """X2."""
    page = listed.listing(limit=3)
    listed.delete(NAMES[2])
    assert page.next_after is not None
    assert [stream.name for stream in listed.listing(after=page.next_after).streams] == NAMES[3:]


def test_what_is_gone_is_not_listed(listed: Engine) -> None:
    """X2: deleted, deleted but kept for a fork, or expired and not yet cleaned up."""
    listed.delete("/a")
    listed.fork("/fork", "/b")
    listed.delete("/b")
    listed.create("/old", lifetime=Lifetime(ttl_s=5))
    listed.now_ms += 5_000
    assert listed.names() == sorted([*NAMES[1:4], *NAMES[5:], "/fork"])
    listed.create("/a", b"again")
    assert listed.names("/a")[0] == "/a"


def test_a_listing_shows_streams_as_they_are(engine: Engine) -> None:
    """X2."""
    engine.create("/s", b"ab")
    engine.append("/s", b"c", closes=True)
    engine.fork("/t", "/s", 1)
    shown = {stream.name: stream for stream in engine.listing().streams}
    assert (shown["/s"].tail, shown["/s"].closed) == (3, True)
    assert (shown["/t"].tail, shown["/t"].closed, shown["/t"].base) == (1, False, 1)


def test_no_names_no_page(engine: Engine) -> None:
    """X2."""
    page = engine.listing()
    assert (page.streams, page.next_after) == ([], None)
