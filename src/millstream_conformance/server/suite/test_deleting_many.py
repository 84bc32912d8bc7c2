"""Deleting streams by prefix and glob, in pages (extension; X11)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from millstream_conformance.server.checks import each, needs, rule
from millstream_conformance.server.servers import Server
from millstream_conformance.server.suite.test_forks import fork_of


def deleted(server: Server, **params: Any) -> dict[str, Any]:
    """One page of a deletion."""
    asked = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in params.items())
    answer = server.request("DELETE", "/__ds/streams", query=asked)
    assert answer.status == 200
    page: dict[str, Any] = answer.json()
    return page


def delete_all(server: Server, **params: Any) -> list[int]:
    """How many streams each page has deleted, to the last one."""
    counts, cursor = [], None
    for _ in range(200):
        page = deleted(server, **params, **({"cursor": cursor} if cursor else {}))
        counts.append(page["deleted"])
        cursor = page.get("cursor")
        if not cursor:
            return counts
    raise AssertionError("the deletion never ends")


@rule("X11")
@needs("delete")
def test_what_begins_with_the_prefix_is_deleted(server: Server) -> None:
    """Every stream below the prefix is gone, and no other."""
    base = server.path()
    gone = [server.stream(path=f"{base}/{number}") for number in range(5)]
    kept = server.stream(path=f"{base}x")
    assert sum(delete_all(server, prefix=f"{base}/")) == 5
    assert [stream.head().status for stream in gone] == [404] * 5
    assert kept.head().status == 200


@rule("X11")
@needs("delete")
def test_pages_delete_everything_once(server: Server) -> None:
    """No page deletes more than its limit, and together they delete everything; a repetition nothing."""
    base = server.path()
    for number in range(7):
        server.stream(path=f"{base}/{number}")
    counts = delete_all(server, prefix=f"{base}/", limit=3)
    assert max(counts) <= 3
    assert sum(counts) == 7
    assert sum(delete_all(server, prefix=f"{base}/")) == 0


@rule("X11")
@needs("delete")
def test_a_glob_chooses(server: Server) -> None:
    """With a glob, what it does not match stays."""
    base = server.path()
    gone, kept = (server.stream(path=f"{base}/{name}") for name in ("a/1", "b/1"))
    assert sum(delete_all(server, prefix=f"{base}/", glob=f"{base}/a/*")) == 1
    assert (gone.head().status, kept.head().status) == (404, 200)


@rule("X11")
@needs("delete")
@each("query", ["", "prefix=", "prefix=&glob=**", "limit=10"])
def test_a_deletion_that_names_nothing_is_400(server: Server, query: str) -> None:
    """Without a prefix or a glob nothing is deleted."""
    stream = server.stream()
    assert server.request("DELETE", "/__ds/streams", query=query).status == 400
    assert stream.head().status == 200


@rule("X11")
@needs("delete", "forks")
def test_a_source_is_kept_for_its_forks(server: Server) -> None:
    """As after a single deletion: 410, and readable through the fork, until that is deleted."""
    base = server.path()
    source = server.stream("text/plain", b"abc", path=f"{base}/a/source")
    fork = fork_of(source, path=f"{base}/b/fork")
    assert fork.created.status == 201
    assert sum(delete_all(server, prefix=f"{base}/a/")) == 1
    assert source.head().status == 410
    assert fork.content() == b"abc"
    assert sum(delete_all(server, prefix=f"{base}/b/")) == 1
    assert source.head().status == 404
