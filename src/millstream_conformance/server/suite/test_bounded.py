"""Bounded reads: `until`, `limit`, and HEAD as a read without its body (extension; G7, X1)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from millstream_conformance.server.checks import each, needs, rule
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.laws import any_bytes, law
from millstream_conformance.server.servers import Server

SAME_AS_GET = ["Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Closed", "Content-Type", "ETag"]


@rule("G7", "X1")
@needs("until")
def test_until_ends_a_read_before_its_offset(server: Server) -> None:
    """Bytes from `offset` to before `until`, and the next offset is `until`."""
    stream = server.stream("text/plain", b"one ")
    first = stream.created.next_offset
    second = stream.append(b"two ").next_offset
    stream.append(b"three")
    answer = stream.get("-1", until=second)
    assert answer.status == 200
    assert answer.body == b"one two "
    assert answer.next_offset == second
    assert "Stream-Up-To-Date" not in answer.headers
    assert stream.get(first, until=second).body == b"two "
    assert stream.get(second, until=second).body == b""


@rule("G7", "X1")
@needs("until")
def test_until_bounds_json_by_messages(server: Server) -> None:
    """A bounded JSON read is an array of the messages before the bound."""
    stream = server.stream("application/json", b"[1,2]")
    stream.append(b"[3]")
    answer = stream.get("-1", until=stream.created.next_offset)
    assert elements(answer.body) == ["1", "2"]
    assert answer.next_offset == stream.created.next_offset


@rule("G7")
@needs("until")
@each("closed", {"open": False, "closed": True})
def test_until_the_tail_is_a_plain_read(server: Server, closed: bool) -> None:
    """A bound at the tail changes nothing: up to date, and closed if it is."""
    stream = server.stream("text/plain", b"all", closed=closed)
    answer = stream.get("-1", until=stream.tail())
    assert answer.body == b"all"
    assert answer.up_to_date
    assert answer.closed is closed


@rule("G7")
@needs("until")
@each("query", ["until=abc", "until=", "until=0,1", "limit=abc", "limit=-1", "limit=1.5", "limit="])
def test_a_malformed_bound_is_400(server: Server, query: str) -> None:
    """A malformed bound is 400."""
    assert server.stream("text/plain", b"x").get(raw_query=f"offset=-1&{query}").status == 400


@rule("G7")
@needs("until")
def test_a_limit_makes_small_pages(server: Server) -> None:
    """Pages have at most `limit` bytes or one message, and together are the stream."""
    strategies = {"pieces": st.lists(any_bytes, min_size=1, max_size=8), "limit": st.integers(1, 300)}

    @law(examples=20, **strategies)
    def holds(pieces: list[bytes], limit: int) -> None:
        server.transcript.clear()
        stream = server.stream("application/octet-stream")
        for piece in pieces:
            stream.append(piece)
        pages = stream.pages("-1", limit=limit)
        assert b"".join(page.body for page in pages) == b"".join(pieces)
        assert all(len(page.body) <= max(limit, *map(len, pieces)) for page in pages)
        assert all(page.body for page in pages)


@rule("G7", "G1")
@needs("until")
def test_a_limited_read_says_when_it_is_partial(server: Server) -> None:
    """Neither up to date nor closed before the end; both at the end."""
    stream = server.stream("text/plain")
    for word in (b"aaaa", b"bbbb", b"cccc"):
        stream.append(word)
    stream.close()
    *partial, last = stream.pages("-1", limit=4)
    assert partial, "a limit of one message must make several pages"
    for page in partial:
        assert "Stream-Up-To-Date" not in page.headers
        assert "Stream-Closed" not in page.headers
    assert last.up_to_date
    assert last.closed


@rule("G7", "G4")
@needs("until")
def test_a_json_message_is_never_cut(server: Server) -> None:
    """A limit below one message still gives one whole message."""
    stream = server.stream("application/json", b'[{"text":"a rather long message"},{"text":"another one"}]')
    pages = stream.pages("-1", limit=1)
    assert len(pages) >= 1
    assert all(elements(page.body) for page in pages)
    assert sum(len(elements(page.body)) for page in pages) == 2


@rule("X1")
@needs("until")
@each(
    "params",
    {
        "whole": {},
        "from-the-middle": {"offset": "first"},
        "limited": {"offset": "-1", "limit": 4},
        "bounded": {"offset": "-1", "until": "second"},
        "tail": {"offset": "tail"},
    },
)
def test_head_has_the_headers_of_the_get(server: Server, params: dict[str, Any]) -> None:
    """HEAD with read parameters has the headers of the same GET."""
    stream = server.stream("text/plain", b"one ")
    named = {"first": stream.created.next_offset, "second": stream.append(b"two ").next_offset}
    named["tail"] = stream.append(b"three").next_offset
    stream.close()
    asked = {key: named.get(str(value), value) for key, value in params.items()} or {"offset": "-1"}
    head, get = (
        stream.head(**asked),
        stream.server.request(
            "GET", stream.path, query="&".join(f"{key}={value}" for key, value in sorted(asked.items()))
        ),
    )
    assert (head.status, get.status) == (200, 200)
    assert {name: head.headers.get(name) for name in SAME_AS_GET} == {
        name: get.headers.get(name) for name in SAME_AS_GET
    }
