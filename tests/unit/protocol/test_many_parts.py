"""Parts of many streams in one body, in either form (rule X5)."""

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.protocol.errors import MalformedError, RequestError
from millstream.protocol.many_parts import CONTENT_TYPE, MAX_ENTRIES, parse_many
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.producers import Stamp
from millstream.protocol.queries import Query
from millstream.protocol.requests import AppendRequest

STAGE, COMMIT = Query(b"stage"), Query(b"commit")
JSON = b"application/json"


def as_json(*entries: Any) -> bytes:
    return json.dumps({"entries": entries}).encode()


def raw(*entries: tuple[Any, bytes]) -> bytes:
    body = b""
    for head, data in entries:
        written = json.dumps(head).encode()
        body += struct.pack(">I", len(written)) + written + struct.pack(">I", len(data)) + data
    return body


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5))
def test_both_forms_say_the_same(contents: list[bytes]) -> None:
    heads = [
        {"path": f"/{number}", "part": "a", "contentType": "text/plain"} for number in range(len(contents))
    ]
    pairs = list(zip(heads, contents, strict=True))
    encoded = as_json(*(head | {"bytes": base64.b64encode(data).decode()} for head, data in pairs))
    found = parse_many(STAGE, JSON, encoded)
    assert found == parse_many(STAGE, CONTENT_TYPE, raw(*pairs))
    assert [one.asked.data for one in found if isinstance(one.asked, StageRequest)] == contents


def test_a_commit_says_all_that_headers_say() -> None:
    entry = {
        "path": "/a",
        "parts": ["x", "y"],
        "producer": {"id": "q", "epoch": 3, "seq": 0},
        "closed": True,
        "seq": "s",
        "expectedOffset": "0000000000000000_0000000000000005",
        "fingerprint": "f",
    }
    [found] = parse_many(COMMIT, JSON, as_json(entry))
    asked = found.asked
    assert isinstance(asked, CommitRequest)
    assert (asked.ids, asked.closes, asked.stamp) == (["x", "y"], True, Stamp(b"q", 3, 0))
    assert (asked.seq, asked.fingerprint) == (b"s", "f")
    assert asked.condition is not None
    assert asked.condition.offset == 5
    [closing] = parse_many(COMMIT, JSON, as_json({"path": "/a", "parts": [], "closed": True}))
    assert isinstance(closing.asked, AppendRequest)


@pytest.mark.parametrize(
    "entry",
    [
        1,
        {"parts": []},
        {"path": "a", "parts": ["x"]},
        {"path": "/__ds/a", "parts": ["x"]},
        {"path": "/a", "parts": []},
        {"path": "/a", "parts": ["x", "x"]},
        {"path": "/a", "parts": ["a b"]},
        {"path": "/a", "parts": ["x"], "fingerprint": "x" * 65},
        {"path": "/a", "parts": ["x"], "producer": {"id": "", "epoch": 0, "seq": 0}},
        {"path": "/a", "parts": ["x"], "producer": {"id": "i" * 257, "epoch": 0, "seq": 0}},
        {"path": "/a", "parts": ["x"], "producer": {"id": "i", "epoch": -1, "seq": 0}},
        {"path": "/a", "parts": ["x"], "producer": {"id": "i\n", "epoch": 0, "seq": 0}},
        {"path": "/a", "parts": ["x"], "expectedOffset": "now"},
        {"path": "/a", "parts": ["x"], "seq": ""},
        {"path": "/a", "parts": ["x"], "what": 1},
    ],
)
def test_a_bad_entry_spoils_no_other(entry: Any) -> None:
    good = {"path": "/good", "parts": ["x"]}
    first, bad, last = parse_many(COMMIT, JSON, as_json(good, entry, good))
    assert isinstance(bad.asked, MalformedError)
    assert isinstance(first.asked, CommitRequest)
    assert isinstance(last.asked, CommitRequest)


@pytest.mark.parametrize(
    ("query", "content_type", "body"),
    [
        (b"", JSON, as_json()),
        (b"stage&commit", JSON, as_json()),
        (b"commit", JSON, b"[]"),
        (b"commit", JSON, b'{"entries": 1}'),
        (b"commit", JSON, b"\xff"),
        (b"stage", CONTENT_TYPE, b"\0\0"),
        (b"stage", CONTENT_TYPE, b"\0\0\0\x05{}"),
        (b"stage", CONTENT_TYPE, b"\0\0\0\x02{}\0\0\0\x09x"),
        (b"commit", JSON, as_json(*[1] * (MAX_ENTRIES + 1))),
    ],
)
def test_a_body_that_is_none_is_refused(query: bytes, content_type: bytes, body: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_many(Query(query), content_type, body)


@given(st.binary(max_size=60), st.booleans(), st.booleans())
@example(b"\0\0\0\x02{}\0\0\0\0", True, False)
def test_no_body_is_a_failure(body: bytes, is_raw: bool, stages: bool) -> None:
    try:
        parse_many(STAGE if stages else COMMIT, CONTENT_TYPE if is_raw else JSON, body)
    except RequestError as error:
        assert error.code
