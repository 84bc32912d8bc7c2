"""Offsets: order, resuming, sentinels, and malformed ones (protocol 8)."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from millstream_conformance.server.checks import case, each, needs, rule, stricter
from millstream_conformance.server.laws import any_bytes, law
from millstream_conformance.server.servers import Server


@rule("O1")
def test_offsets_rise_and_resume_anywhere(server: Server) -> None:
    """Each append's offset sorts after the one before, and reading from it gives exactly the rest."""

    @law(examples=20, pieces=st.lists(any_bytes, min_size=1, max_size=6))
    def holds(pieces: list[bytes]) -> None:
        server.transcript.clear()
        stream = server.stream("application/octet-stream")
        offsets = [stream.created.next_offset]
        offsets += [stream.append(piece).next_offset for piece in pieces]
        assert offsets == sorted(set(offsets))
        for number, offset in enumerate(offsets):
            assert stream.content(offset) == b"".join(pieces[number:])


@rule("O1", "A10")
def test_json_offsets_fall_between_messages(server: Server) -> None:
    """Reading a JSON stream from any append's offset gives the messages after it."""
    stream = server.stream("application/json")
    offsets = [stream.append(f"[{number},{number}]".encode()).next_offset for number in range(5)]
    assert offsets == sorted(set(offsets))
    for number, offset in enumerate(offsets):
        assert stream.get(offset).json() == [n for n in range(number + 1, 5) for _ in range(2)]


@rule("O1", "O2")
@stricter("section 8 says SHOULD")
def test_offsets_are_url_safe_and_short(server: Server) -> None:
    """An offset needs no escaping in a query string and has at most 255 characters."""
    stream = server.stream("text/plain", b"x")
    for offset in (stream.created.next_offset, stream.append(b"y").next_offset, server.stream().tail()):
        assert re.fullmatch(r"[A-Za-z0-9._~:!$'()*+;@-]{1,255}", offset)


@rule("O1", "O2")
def test_offsets_are_single_tokens(server: Server) -> None:
    """An offset has none of `,&=?/` and is never a sentinel."""
    stream = server.stream("text/plain", b"x")
    for offset in (stream.created.next_offset, stream.append(b"y").next_offset, server.stream().tail()):
        assert not set(offset) & set(",&=?/")
        assert offset not in {"-1", "now", ""}


@rule("O1")
@needs("numbered-offsets")
@stricter("readers of logs and of Spark's progress can see how far a stream is")
def test_numbered_offsets_count_bytes(server: Server) -> None:
    """A stream starts at zero in both fields, and the second field grows by the bytes appended."""
    stream = server.stream("application/octet-stream")
    assert stream.created.next_offset == "0000000000000000_0000000000000000"
    total = 0
    for size in (1, 10, 100, 1000):
        total += size
        assert stream.append(b"x" * size).next_offset == f"{0:016d}_{total:016d}"


@rule("O2")
@case("offset-minus-one-is-start")
def test_minus_one_is_the_start(server: Server) -> None:
    """`-1`, the first offset and no offset at all read the same."""
    stream = server.stream("text/plain", b"from the start")
    for answer in (stream.get("-1"), stream.get(), stream.get(server.stream().created.next_offset)):
        assert answer.status == 200
        assert answer.body == b"from the start"


BAD_ANYWHERE = {
    "empty": "offset=",
    "repeated": "offset=-1&offset=-1",
    "comma": "offset=0,1",
    "encoded-comma": "offset=0%2C1",
    "slash": "offset=0/1",
    "encoded-slash": "offset=0%2f1",
    "encoded-space": "offset=0%201",
    "plus-as-space": "offset=0+1",
    "dot-dot": "offset=..",
    "traversal": "offset=..%2F..%2Fetc%2Fpasswd",
    "nul": "offset=0%00",
    "line-feed": "offset=0%0a",
    "header-injection": "offset=0%0d%0aX-Injected:%201",
    "question-mark": "offset=0%3F1",
    "equals": "offset=a%3Db",
    "broken-utf-8": "offset=%ff",
}
BAD_NUMBERS = {
    "word": "offset=abc",
    "minus-two": "offset=-2",
    "upper-now": "offset=NOW",
    "one-field": "offset=0000000000000000",
    "three-fields": "offset=0000000000000000_0000000000000000_0000000000000000",
    "letters": "offset=000000000000000x_0000000000000000",
    "sign": "offset=+000000000000000_0000000000000000",
    "arabic-digits": "offset=" + "%D9%A0" * 16 + "_" + "%D9%A0" * 16,
    "very-long": "offset=" + "0" * 300 + "_" + "0" * 300,
}


@rule("O3")
@case("malformed-offset-400")
@each("query", BAD_ANYWHERE)
@stricter("the protocol does not mention repeated parameters", rows=["repeated"])
def test_a_malformed_offset_is_400(server: Server, query: str) -> None:
    """A malformed offset is 400 in every read mode."""
    stream = server.stream("text/plain", b"x")
    for live in ("", "&live=long-poll", "&live=sse"):
        answer = stream.get(raw_query=query + live)
        assert answer.status == 400
        assert "X-Injected" not in answer.headers


@rule("O3")
@needs("numbered-offsets")
@each("query", BAD_NUMBERS)
@stricter("section 8 names no maximum length", rows=["very-long"])
def test_a_malformed_numbered_offset_is_400(server: Server, query: str) -> None:
    """Where offsets are two numbers, other tokens are 400."""
    assert server.stream("text/plain", b"x").get(raw_query=query).status == 400


@rule("O3")
@needs("numbered-offsets")
@stricter("a reader that outlives a restored backup should wait for new data, not fail")
def test_an_offset_past_the_tail_reads_like_the_tail(server: Server) -> None:
    """A read past the tail is 200, empty, up to date, with the tail as next offset."""
    stream = server.stream("text/plain", b"x")
    answer = stream.get("0000000000000000_0000000000099999")
    assert answer.status == 200
    assert answer.body == b""
    assert answer.up_to_date
    assert answer.next_offset == stream.tail()


@rule("O1", "G1")
def test_what_was_read_never_changes(server: Server) -> None:
    """The bytes before an offset are the same after more was appended and after closing."""
    stream = server.stream("text/plain", b"one ")
    middle = stream.append(b"two ").next_offset
    before = stream.content()
    stream.append(b"three")
    stream.close()
    assert stream.content().startswith(before)
    assert stream.content(middle) == b"three"
