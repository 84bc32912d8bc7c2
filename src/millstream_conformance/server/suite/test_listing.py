"""Listing streams by prefix and glob, in pages (extension; X2)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from millstream_conformance.server.checks import each, needs, rule
from millstream_conformance.server.servers import Server


def listed(server: Server, **params: Any) -> dict[str, Any]:
    """One page of the listing."""
    asked = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in params.items())
    answer = server.request("GET", "/__ds/streams", query=asked)
    assert answer.status == 200
    page: dict[str, Any] = answer.json()
    return page


def all_paths(server: Server, **params: Any) -> list[str]:
    """The paths of all pages."""
    found, cursor = [], None
    for _ in range(200):
        page = listed(server, **params, **({"cursor": cursor} if cursor else {}))
        found += [entry["path"] for entry in page["streams"]]
        cursor = page.get("cursor")
        if not cursor:
            return found
    raise AssertionError("the listing never ends")


@rule("X2")
@needs("list")
def test_a_listed_stream_is_described(server: Server) -> None:
    """An entry has path, content type, tail, closure and size."""
    base = server.path()
    stream = server.stream("text/plain", b"hello", path=f"{base}/a", closed=True)
    (entry,) = listed(server, prefix=base)["streams"]
    assert entry["path"] == stream.path
    assert entry["contentType"] == "text/plain"
    assert entry["tail"] == stream.tail()
    assert entry["closed"] is True
    assert entry["bytes"] == 5


@rule("X2")
@needs("list")
def test_pages_cover_everything_once(server: Server) -> None:
    """Whatever the page size, each stream below the prefix is listed once."""
    base = server.path()
    expected = sorted(server.stream(path=f"{base}/{number:02d}").path for number in range(7))
    server.stream(path=f"{base}x")
    for limit in (1, 3, 100):
        assert sorted(all_paths(server, prefix=f"{base}/", limit=limit)) == expected


@rule("X2")
@needs("list")
@each(
    "glob",
    {
        "one-segment": ("*", {"a", "b"}),
        "any-depth": ("**", {"a", "b", "deep/c"}),
        "inner": ("deep/*", {"deep/c"}),
    },
)
def test_globs_select(server: Server, glob: tuple[str, set[str]]) -> None:
    """`*` is one segment, `**` any number."""
    base = server.path()
    for name in ("a", "b", "deep/c"):
        server.stream(path=f"{base}/{name}")
    assert set(all_paths(server, glob=f"{base}/{glob[0]}")) == {f"{base}/{name}" for name in glob[1]}


@rule("X2")
@needs("list")
def test_what_is_deleted_is_not_listed(server: Server) -> None:
    """A deleted stream is not listed."""
    stream = server.stream()
    assert all_paths(server, prefix=stream.path) == [stream.path]
    stream.delete()
    assert all_paths(server, prefix=stream.path) == []


@rule("X2")
@needs("list")
@each("query", ["limit=abc", "limit=0", "limit=-1"])
def test_a_malformed_page_size_is_400(server: Server, query: str) -> None:
    """A malformed page size is 400."""
    assert server.request("GET", "/__ds/streams", query=query).status == 400
