"""Offsets of a query survive the trip through Spark's checkpoint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.spark.source.offsets import (
    CheckpointError,
    Position,
    bytes_between,
    decode,
    encode,
    parse,
    unpacked,
)

POSITIONS = st.builds(
    Position,
    st.text(min_size=1),
    st.integers(0, 2**40),
    st.none() | st.integers(0, 2**40),
    st.booleans(),
)


@given(st.dictionaries(st.text(min_size=1), POSITIONS))
def test_positions_come_back_and_are_always_written_alike(positions: dict[str, Position]) -> None:
    written = json.dumps(encode(positions))
    assert decode(json.loads(written)) == positions
    assert json.dumps(encode(decode(json.loads(written)))) == written


@pytest.mark.parametrize("written", [{"a": 1}, {"a": {}}, {"a": {"offset": 5}}])
def test_what_this_source_did_not_write_is_refused(written: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match="not written by this source"):
        decode(written)


def test_a_rows_offset_can_be_given_back() -> None:
    assert parse("1f_3+0000000000000002", counted=True) == Position("1f_3", 2, 0)
    assert parse("0_5", counted=False) == Position("0_5")


def test_only_offsets_that_count_bytes_tell_a_distance() -> None:
    zero, five = "0000000000000000_0000000000000000", "0000000000000000_0000000000000005"
    assert bytes_between(zero, five) == 5
    assert bytes_between(zero, "0000000000000001_0000000000000005") is None
    assert bytes_between("-1", five) is None


def test_offsets_of_very_many_streams_are_packed() -> None:
    positions = {
        f"folder/{number}": Position(f"{0:016d}_{number:016d}", incarnation=f"{number:016x}")
        for number in range(5000)
    }
    written = encode(positions)
    assert list(written) == ["packed"]
    assert len(json.dumps(written)) < 200_000
    assert len(json.dumps(unpacked(written))) > 400_000
    assert decode(written) == positions
    assert encode(decode(written)) == written
    with pytest.raises(CheckpointError):
        decode({"packed": "nothing"})
