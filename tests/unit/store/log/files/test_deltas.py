"""Numbers as distances: what is decoded is what was encoded, in few bytes (X7)."""

from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.store.log.files import deltas

distances = st.lists(st.integers(0, 3) | st.integers(0, 2**14) | st.integers(0, 2**40), max_size=300)
alike = st.integers(0, 2**40).flatmap(
    lambda least: st.lists(st.integers(least, least + 2**16), min_size=1, max_size=300)
)


@given(distances, st.integers(0, 2**41), st.binary(max_size=5), st.binary(max_size=5))
def test_what_is_decoded_is_what_was_encoded(
    found: list[int], before: int, ahead: bytes, after: bytes
) -> None:
    numbers = _numbers(found, before)
    encoded = deltas.encode(numbers, before)
    data = ahead + encoded + after
    assert deltas.decode(data, len(ahead), len(numbers), before) == (numbers, len(ahead) + len(encoded))


@given(distances | alike, st.integers(0, 2**41))
def test_the_shorter_code_is_taken_and_decoded(found: list[int], before: int) -> None:
    numbers = _numbers(found, before)
    encoded, is_dense = deltas.encode_shortest(numbers, before)
    assert len(encoded) <= len(deltas.encode(numbers, before))
    if is_dense:
        assert deltas.decode_dense(encoded, len(numbers), before) == numbers
    else:
        assert deltas.decode(encoded, 0, len(numbers), before)[0] == numbers


def test_regular_distances_take_little_however_long_they_are() -> None:
    numbers = _numbers([3_600_000] * 256, 0)
    encoded, is_dense = deltas.encode_shortest(numbers, 0)
    assert is_dense
    assert len(encoded) < 50


def test_what_ends_too_early_is_noticed() -> None:
    for data in (b"", b"\x01", b"\x01\x80"):
        with pytest.raises(ValueError, match="end too early"):
            deltas.decode(data, 0, 2, 0)


def test_a_dense_code_that_ends_too_early_is_noticed() -> None:
    numbers = _numbers([60_000 + number * 37 % 1000 for number in range(100)], 5)
    encoded, is_dense = deltas.encode_shortest(numbers, 5)
    assert is_dense
    for size in range(len(encoded)):
        with pytest.raises(ValueError, match="end too early"):
            deltas.decode_dense(encoded[:size], 100, 5)


def test_numbers_that_fall_are_refused() -> None:
    with pytest.raises(ValueError, match="fall"):
        deltas.encode(array("Q", [5, 4]), 0)


def _numbers(distances: list[int], before: int) -> "array[int]":
    return array("Q", list(accumulate(distances, initial=before))[1:])
