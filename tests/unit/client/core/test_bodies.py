"""Every message comes out as it went in, or does not go in."""

import datetime
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import ParseError
from millstream.client.core import bodies

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(VALUES, min_size=1))
def test_json_values_survive(values: list[Any]) -> None:
    body = bodies.join([bodies.message(value, as_json=True) for value in values], as_json=True)
    assert json.loads(body) == values
    assert bodies.from_json(body, "http://h/s") == values


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, [1, math.nan], {"a": {"b": [None, math.inf]}}]
)
def test_what_json_cannot_say_is_refused_not_changed(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        bodies.message(value, as_json=True)


def test_none_is_null() -> None:
    assert bodies.message([None, {"a": None}], as_json=True) == b'[null,{"a":null}]'


@pytest.mark.parametrize("value", ["\ud800", {"a": "x\udfffy"}])
def test_half_a_surrogate_pair_survives(value: Any) -> None:
    assert bodies.from_json(bodies.message([value], as_json=True), "http://h/s") == [value]


def test_big_integers_and_exact_text_survive_as_bytes() -> None:
    exact = b'{"id": 123456789012345678901234567890, "price": 1.50}'
    assert bodies.join([bodies.message(exact, as_json=True)], as_json=True) == b"[%b]" % exact
    assert bodies.from_json(b"[%b]" % exact, "u")[0]["id"] == 123456789012345678901234567890


@pytest.mark.parametrize("text", [b"1,2", b"{", b"", b"[1", b'"\xff"', b"NaN"])
def test_bytes_on_a_json_stream_are_exactly_one_message(text: bytes) -> None:
    with pytest.raises(ValueError, match="one message of JSON"):
        bodies.message(text, as_json=True)


def test_a_list_is_one_message_to_append_and_many_to_create_with() -> None:
    assert bodies.join([bodies.message([1, 2], as_json=True)], as_json=True) == b"[[1,2]]"
    assert bodies.content([1, 2], as_json=True) == b"[1,2]"
    assert bodies.content({"a": 1}, as_json=True) == b'[{"a":1}]'
    assert bodies.content([], as_json=True) == b""


def test_other_streams_take_bytes_and_text() -> None:
    assert bodies.message("ä", as_json=False) == "ä".encode()
    assert bodies.message(bytearray(b"\xff"), as_json=False) == b"\xff"
    assert bodies.message(memoryview(b"ab"), as_json=False) == b"ab"
    for wrong in ({"a": 1}, 5, None, datetime.date(2026, 1, 1)):
        with pytest.raises(TypeError, match="bytes or str"):
            bodies.message(wrong, as_json=False)


def test_objects_that_are_no_json_are_a_type_error() -> None:
    with pytest.raises(TypeError):
        bodies.message(object(), as_json=True)


@pytest.mark.parametrize("text", [b"[1", b"nope", b"\xff\xff", b"[" * 100_000])
def test_content_that_is_not_json_is_a_parse_error(text: bytes) -> None:
    with pytest.raises(ParseError):
        bodies.from_json(text, "http://h/s")


@given(st.text(), st.lists(st.integers(1, 5)))
def test_text_survives_cuts_inside_characters(text: str, sizes: list[int]) -> None:
    decoder, encoded, position, out = bodies.TextDecoder(), text.encode(), 0, ""
    for size in [*sizes, len(encoded)]:
        out += decoder.feed(encoded[position : position + size])
        position += size
    assert out + decoder.feed(b"", final=True) == text


@given(st.lists(st.binary(max_size=30)), st.integers(1, 50))
def test_packing_keeps_messages_in_order_and_batches_small(messages: list[bytes], limit: int) -> None:
    batches = list(bodies.pack(messages, limit))
    assert [one for batch in batches for one in batch] == messages
    assert all(len(batch) == 1 or sum(len(one) + 1 for one in batch) <= limit for batch in batches)
