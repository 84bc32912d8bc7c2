"""Splitting: whatever the pieces, the same messages, byte for byte."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.spark.json.splitting import ArraySplitter, NotAnArrayError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def split(body: bytes, sizes: list[int]) -> list[bytes]:
    splitter = ArraySplitter()
    found, at = [], 0
    for size in sizes:
        found += splitter.feed(body[at : at + size])
        at += size
    found += splitter.feed(body[at:])
    return found + splitter.end()


@given(
    values=st.lists(VALUES, max_size=8),
    indent=st.none() | st.integers(0, 2),
    ascii_only=st.booleans(),
    sizes=st.lists(st.integers(0, 20)),
)
def test_pieces_of_any_size_give_the_same_messages(
    values: list[object], indent: int | None, ascii_only: bool, sizes: list[int]
) -> None:
    messages = [json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode() for value in values]
    for body in (b"[" + b",".join(messages) + b"]", b" [ " + b" , ".join(messages) + b" ] \n"):
        assert split(body, sizes) == messages
        assert split(body, [1] * len(body)) == messages


@pytest.mark.parametrize("body", [b"", b"[", b"[1,", b'["a', b'[{"a":[1]', b"[1,,2]", b"[,1]"])
def test_what_is_no_whole_array_is_refused(body: bytes) -> None:
    with pytest.raises(NotAnArrayError):
        split(body, [])


def test_what_is_held_is_the_message_that_has_not_ended() -> None:
    splitter = ArraySplitter()
    splitter.feed(b"[")
    message = b'{"text":"' + b"x" * 1000 + b'"}'
    for _ in range(1000):
        splitter.feed(message + b",")
        assert len(splitter._held) <= 2 * len(message)


def test_a_long_string_is_not_looked_at_again_for_every_piece() -> None:
    splitter = ArraySplitter()
    splitter.feed(b'["')
    looked = 0
    for _ in range(4096):
        splitter.feed(b"x" * 1024)
        looked += splitter._wait_for > len(splitter._held)
    assert looked > 4000
    assert [len(one) for one in splitter.feed(b'"]') + splitter.end()] == [4096 * 1024 + 2]
