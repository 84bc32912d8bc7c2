"""Fork offsets and sub-offsets (protocol 4.2, 8)."""

from __future__ import annotations

from millstream_conformance.server.checks import each, needs, rule, stricter
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.servers import Server
from millstream_conformance.server.suite.test_forks import fork_of


def sub(value: str) -> dict[str, str]:
    """The sub-offset header."""
    return {"Stream-Fork-Sub-Offset": value}


@rule("F1", "O3")
@needs("forks", "numbered-offsets")
@each(
    "at",
    {
        "past-tail": "9999999999999999_9999999999999999",
        "word": "abc",
        "empty": "",
        "comma": "0,1",
        "dots": "..",
    },
)
@stricter("section 4.2 does not say that an empty value is not the same as none", rows=["empty"])
def test_an_impossible_fork_offset_is_400(server: Server, at: str) -> None:
    """A fork offset past the tail or malformed is 400 and creates nothing."""
    source = server.stream("text/plain", b"x")
    fork = fork_of(source, at)
    assert fork.created.status == 400
    assert fork.head().status == 404


@rule("F1")
@needs("forks", "sub-offsets")
@each("count", {"first": 1, "middle": 3, "whole-message": 5})
def test_a_sub_offset_counts_bytes(server: Server, count: int) -> None:
    """A sub-offset counts bytes past the fork offset, up to the whole next message."""
    source = server.stream("text/plain", b"start-")
    at = source.created.next_offset
    source.append(b"hello")
    source.append(b"world")
    fork = fork_of(source, at, headers=sub(str(count)))
    assert fork.created.status == 201
    assert fork.content() == b"start-" + b"hello"[:count]
    fork.append(b"!")
    assert fork.content() == b"start-" + b"hello"[:count] + b"!"
    assert fork.tail() > fork.created.next_offset
    assert source.content() == b"start-helloworld"


@rule("F1")
@needs("forks", "sub-offsets")
@each("count", {"first": 1, "middle": 2, "whole-batch": 3})
def test_a_sub_offset_counts_json_messages(server: Server, count: int) -> None:
    """A sub-offset of a JSON stream counts flattened messages."""
    source = server.stream("application/json", b'["zero"]')
    at = source.created.next_offset
    source.append(b'["a","b","c"]')
    source.append(b'["d"]')
    fork = fork_of(source, at, headers=sub(str(count)))
    assert fork.created.status == 201
    fork.append(b'"own"')
    assert elements(fork.content()) == ['"zero"', *['"a"', '"b"', '"c"'][:count], '"own"']


@rule("F1")
@needs("forks", "sub-offsets")
@each("value", ["+1", "-1", "01", "1.0", "1e0", "one", "", " ", "0x1", "1_0"])
@stricter(
    "section 4.2 asks for a non-negative integer and mentions neither leading zeros nor a sign",
    rows=["01", "+1"],
)
@stricter("section 4.2 does not say that an empty value is not the same as none", rows=["", " "])
def test_a_malformed_sub_offset_is_400(server: Server, value: str) -> None:
    """A sub-offset is a plain non-negative integer."""
    source = server.stream("text/plain", b"start-")
    at = source.created.next_offset
    source.append(b"hello")
    fork = fork_of(source, at, headers=sub(value))
    assert fork.created.status == 400
    assert fork.head().status == 404


@rule("F1")
@needs("forks", "sub-offsets")
@each("content_type", {"bytes": "text/plain", "json": "application/json"})
def test_a_sub_offset_past_the_tail_is_400(server: Server, content_type: str) -> None:
    """A sub-offset past the tail is 400."""
    source = server.stream(content_type, b"[1,2]")
    start = source.created.next_offset
    source.append(b"[3,4]")
    assert fork_of(source, start, headers=sub("6")).created.status == 400
    assert fork_of(source, start, headers=sub("9007199254740991")).created.status == 400
    assert fork_of(source, source.tail(), headers=sub("1")).created.status == 400


@rule("F1")
@needs("forks", "sub-offsets")
@each("content_type", {"bytes": "text/plain", "json": "application/json"})
@stricter("section 4.2 speaks of the next data boundary, and does not say that an append ends with one")
def test_a_sub_offset_past_the_next_append_is_400(server: Server, content_type: str) -> None:
    """A sub-offset past the end of the next append is 400."""
    source = server.stream(content_type)
    start = source.created.next_offset
    source.append(b"[1,2]" if content_type == "application/json" else b"ab")
    source.append(b"[3,4]" if content_type == "application/json" else b"cd")
    assert fork_of(source, start, headers=sub("3")).created.status == 400


@rule("F1")
@needs("forks", "sub-offsets")
def test_a_sub_offset_needs_what_it_refines(server: Server) -> None:
    """A sub-offset above zero needs a fork offset and a source."""
    source = server.stream("text/plain", b"hello")
    assert fork_of(source, headers=sub("1")).created.status == 400
    assert fork_of(source, headers=sub("0")).created.status == 201
    assert server.at(server.path()).put(headers=sub("1")).status == 400


@rule("F1")
@needs("forks", "sub-offsets")
@stricter("section 5.1 demands a source, but section 4.2 makes 0 the same as no sub-offset")
def test_a_sub_offset_of_zero_needs_a_source(server: Server) -> None:
    """`Stream-Fork-Sub-Offset: 0` without a source is 400."""
    assert server.at(server.path()).put(headers=sub("0")).status == 400


@rule("F1", "C1")
@needs("forks", "sub-offsets")
def test_a_sub_offset_of_zero_is_none(server: Server) -> None:
    """A sub-offset of 0 equals none, also when configurations are compared."""
    source = server.stream("text/plain", b"start-")
    at = source.created.next_offset
    source.append(b"hello")
    fork = fork_of(source, at, headers=sub("0"))
    assert fork.created.status == 201
    assert fork.content() == b"start-"
    assert fork_of(source, at, path=fork.path).created.status == 200
    assert fork_of(source, at, path=fork.path, headers=sub("2")).created.status == 409


@rule("F1")
@needs("forks")
@stricter("silently ignoring a fork offset would create a stream that the writer did not ask for")
def test_a_fork_offset_without_a_source_is_400(server: Server) -> None:
    """A fork offset without a source is 400."""
    tail = server.stream("text/plain", b"x").tail()
    stream = server.at(server.path())
    assert stream.put(headers={"Stream-Fork-Offset": tail}).status == 400
    assert stream.head().status == 404


@rule("F1", "F2")
@needs("forks", "sub-offsets")
def test_a_rejected_fork_holds_no_reference(server: Server) -> None:
    """After refused forks, deleting the source deletes it for good."""
    source = server.stream("text/plain", b"hello")
    start = server.stream().created.next_offset
    assert fork_of(source, start, headers=sub("99")).created.status == 400
    assert fork_of(source, content_type="application/json").created.status == 409
    assert source.delete().status == 204
    assert source.get().status == 404
