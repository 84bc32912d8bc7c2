"""JSON mode: messages, arrays, and the bytes of a message (protocol 9.1)."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from millstream_conformance.server.checks import case, each, rule, stricter
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.laws import json_spelling, law
from millstream_conformance.server.servers import Server


@rule("A10")
@each(
    "batch",
    {
        "object": (b'{"event":"created"}', ['{"event":"created"}']),
        "array": (b'[{"e":"a"},{"e":"b"}]', ['{"e":"a"}', '{"e":"b"}']),
        "nested": (b"[[1,2],[3,4]]", ["[1,2]", "[3,4]"]),
        "nested-twice": (b"[[[1,2,3]]]", ["[[1,2,3]]"]),
        "array-of-empty-array": (b"[[]]", ["[]"]),
        "mixed": (b'[1,"two",null,true,{"a":[]}]', ["1", '"two"', "null", "true", '{"a":[]}']),
        "number": (b"42", ["42"]),
        "string": (b'"a, b]"', ['"a, b]"']),
        "null": (b"null", ["null"]),
        "false": (b"false", ["false"]),
        "space-around": (b' \r\n\t{"a":1}\n', ['{"a":1}']),
        "array-with-space": (b'[ 1 ,\n {"a" : 2} ]', ["1", '{"a" : 2}']),
    },
)
def test_one_array_level_is_flattened(server: Server, batch: tuple[bytes, list[str]]) -> None:
    """An array is a batch of its elements, anything else is one message."""
    body, messages = batch
    stream = server.stream("application/json")
    assert stream.append(body).status == 204
    assert stream.get().json() == [json.loads(message) for message in messages]


@rule("A10")
@each(
    "spelling",
    {
        "big-integer": "12345678901234567890123",
        "beyond-double": "9007199254740993",
        "negative-zero": "-0",
        "trailing-zero": "1.10",
        "exponent": "1E400",
        "key-order": '{"b":1,"a":2}',
        "numeric-keys": '{"10":1,"9":2}',
        "duplicate-keys": '{"a":1,"a":2}',
        "inner-space": '{ "a" :\t[ 1,  2 ] }',
        "escapes": '"\\u0041\\/\\u00e9"',
        "proto-key": '{"__proto__":{"x":1}}',
        "unicode": '"日本 \U0001f600"',
    },
)
@stricter("a server that parses and prints again changes what the writer wrote")
def test_a_message_keeps_its_spelling(server: Server, spelling: str) -> None:
    """A message keeps its bytes, alone and inside a batch."""
    stream = server.stream("application/json")
    stream.append(spelling.encode())
    stream.append(f"[{spelling}, {spelling}]".encode())
    assert elements(stream.content()) == [spelling] * 3


@rule("A10")
@stricter("a server that parses and prints again changes what the writer wrote")
def test_every_message_keeps_its_bytes(server: Server) -> None:
    """Whatever valid JSON is appended, alone or in batches, comes back element by element unchanged."""

    @law(
        examples=25, batches=st.lists(st.lists(json_spelling, min_size=1, max_size=4), min_size=1, max_size=4)
    )
    def holds(batches: list[list[str]]) -> None:
        server.transcript.clear()
        stream = server.stream("application/json")
        for batch in batches:
            assert stream.append(f"[{','.join(batch)}]".encode()).status == 204
        assert elements(stream.content()) == [element for batch in batches for element in batch]


@rule("A10", "R4")
@each("body", {"last": b"[1,2,nope]", "first": b"[nope,1]", "cut": b'[{"a":1},{"b":'})
def test_a_batch_commits_whole_or_not_at_all(server: Server, body: bytes) -> None:
    """One bad element refuses the whole batch."""
    stream = server.stream("application/json", b"[0]")
    assert stream.append(body).status == 400
    assert elements(stream.content()) == ["0"]
    assert stream.append(b"[1]").status == 204
    assert elements(stream.content()) == ["0", "1"]


@rule("A10", "G4")
@each(
    "content_type",
    ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/json;v=2"],
)
@stricter(
    "section 9.1 names the type without parameters",
    rows=["application/json; charset=utf-8", "Application/JSON", "application/json;v=2"],
)
def test_parameters_do_not_end_json_mode(server: Server, content_type: str) -> None:
    """`application/json` with any parameters, in any case, is JSON mode."""
    stream = server.stream(content_type)
    assert stream.append(b"[1,2]").status == 204
    assert stream.append(b"oops").status == 400
    assert elements(stream.content()) == ["1", "2"]


@rule("G4")
@case("catch-up-json-array")
def test_reads_are_arrays(server: Server) -> None:
    """A read is one JSON array of the messages from the offset on, also when there are none."""
    stream = server.stream("application/json")
    assert stream.get().body.strip() == b"[]"
    first = stream.append(b'{"n":1}')
    second = stream.append(b'[{"n":2},{"n":3}]')
    answer = stream.get()
    assert answer.content_type == "application/json"
    assert answer.json() == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert stream.get(first.next_offset).json() == [{"n": 2}, {"n": 3}]
    assert stream.get(second.next_offset).json() == []


@rule("G4", "G1")
def test_a_large_message_is_returned_whole(server: Server) -> None:
    """A message that is larger than any chunk limit still comes as one valid array."""
    stream = server.stream("application/json")
    large = '"' + "x" * 1_400_000 + '"'
    stream.append(b'"before"')
    stream.append(large.encode())
    stream.append(b'"after"')
    found = [element for page in stream.pages() for element in elements(page.body)]
    assert found == ['"before"', large, '"after"']
