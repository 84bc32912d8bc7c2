"""Attributes: rule X10."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol import attributes
from millstream.protocol.attributes import MAX_BYTES, NONE, Changes, matches, merged, parse_attributes
from millstream.protocol.errors import MalformedError

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = (
    NAMES | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
)
CHANGES = st.dictionaries(NAMES, VALUES | st.none(), max_size=5)


@given(st.lists(CHANGES, max_size=5))
def test_changes_are_merged_as_json_merge_patch_says(changes: list[Changes]) -> None:
    """X10, RFC 7396."""
    text, wanted = NONE, dict[str, object]()
    for change in changes:
        text = merged(text, parse_attributes(json.dumps(change).encode()))
        wanted |= change
        wanted = {name: value for name, value in wanted.items() if value is not None}
    assert text.isascii()
    assert b"\n" not in text
    assert (json.loads(text) if text else {}) == wanted
    assert attributes.read(text) == wanted


@given(CHANGES)
def test_a_stream_is_found_by_each_of_its_attributes(changes: Changes) -> None:
    """X10: a text as it is, of other values their JSON."""
    text = merged(NONE, changes)
    wanted = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in changes.items()
        if value is not None
    }
    assert matches(text, wanted)
    for name, value in wanted.items():
        assert not matches(text, {**wanted, name: value + "?"})
    assert not matches(text, {"a name that is too long": ""})


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"1",
        b"[]",
        b'"a"',
        b"null",
        b'{"a":{}}',
        b'{"a":[1]}',
        b'{"a":NaN}',
        b'{"a":1',
        b"{'a':1}",
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b'{"a":1}{}',
    ],
)
def test_only_a_flat_object_is_taken(text: bytes) -> None:
    """X10."""
    with pytest.raises(MalformedError, match="JSON object"):
        parse_attributes(text)


def test_there_is_a_limit_for_what_comes_and_for_what_becomes_of_it() -> None:
    """X10: 4 KiB as headers carry it."""
    largest = b'{"a":"%b"}' % (b"x" * (MAX_BYTES - 8))
    assert merged(NONE, parse_attributes(largest)) == largest
    with pytest.raises(MalformedError, match="4096"):
        parse_attributes(largest[:-2] + b'x"}')
    with pytest.raises(MalformedError, match="4096"):
        merged(NONE, parse_attributes(b'{"a":"%b"}' % ("\u00e4".encode() * 700)))
    with pytest.raises(MalformedError, match="4096"):
        merged(largest, {"b": 1})
