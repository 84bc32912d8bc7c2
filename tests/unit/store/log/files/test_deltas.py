"""Numbers as distances: what is decoded is what was encoded, in few bytes (X7)."""

from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.store.log.files import deltas

distances = st.lists(st.integers(0, 3) | st.integers(0, 2**14) | st.integers(0, 2**40), max_size=300)


@given(distances, st.integers(0, 2**41), st.binary(max_size=5), st.binary(max_size=5))
def test_what_is_decoded_is_what_was_encoded(
    found: list[int], before: int, ahead: bytes, after: bytes
) -> None:
    numbers = array("Q", list(accumulate(found, initial=before))[1:])
    encoded = deltas.encode(numbers, before)
    data = ahead + encoded + after
    assert deltas.decode(data, len(ahead), len(numbers), before) == (numbers, len(ahead) + len(encoded))


@pytest.mark.parametrize(("apart_ms", "size"), [(0, 1), (127, 1), (128, 2), (16_383, 2), (60_000, 3)])
def test_the_time_of_an_append_takes_few_bytes(apart_ms: int, size: int) -> None:
    """X7."""
    numbers = array("Q", [1_700_000_000_000 + apart_ms * number for number in range(256)])
    assert len(deltas.encode(numbers, numbers[0] - apart_ms)) == 256 * size


def test_what_ends_too_early_is_noticed() -> None:
    for data in (b"", b"\x01", b"\x01\x80"):
        with pytest.raises(ValueError, match="end too early"):
            deltas.decode(data, 0, 2, 0)


def test_numbers_that_fall_are_refused() -> None:
    with pytest.raises(ValueError, match="fall"):
        deltas.encode(array("Q", [5, 4]), 0)
