"""A repeated commit that holds something else is refused (rule X5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.errors import MalformedError
from millstream.protocol.fingerprints import (
    REMEMBERED,
    FingerprintDiffers,
    Fingerprints,
    check,
    refuse,
    remember,
)
from millstream.protocol.producers import Stamp

STAMP = Stamp(b"query", 7, 0)
stamps = st.builds(Stamp, st.integers(0, 40).map(lambda n: b"p%d" % n), st.integers(0, 3), st.integers(0, 3))


def test_the_same_fingerprint_is_a_duplicate_and_another_one_is_not() -> None:
    known = remember((), STAMP, "10 rows")
    assert refuse(known, STAMP, "10 rows", 5) is None
    assert refuse(known, STAMP, "12 rows", 5) == FingerprintDiffers("10 rows", "12 rows", 5)
    assert refuse(known, STAMP, None, 5) is None
    assert refuse(known, Stamp(b"query", 8, 0), "12 rows", 5) is None


@given(st.lists(st.tuples(stamps, st.text(min_size=1, max_size=64)), max_size=80))
def test_the_last_commit_of_each_of_the_latest_producers_is_known(given: list[tuple[Stamp, str]]) -> None:
    known: Fingerprints = ()
    for stamp, text in given:
        known = remember(known, stamp, text)
    latest: dict[bytes, tuple[Stamp, str]] = {}
    for stamp, text in given:
        latest.pop(stamp.id, None)
        latest[stamp.id] = stamp, text
    assert [(one.stamp, one.text) for one in known] == list(latest.values())[-REMEMBERED:]


@pytest.mark.parametrize("text", ["", "x" * 65, "a\nb", "\x00"])
def test_a_fingerprint_is_short_and_printable(text: str) -> None:
    with pytest.raises(MalformedError, match="printable"):
        check(text)
    assert check("x" * 64) == "x" * 64
    assert check(None) is None
