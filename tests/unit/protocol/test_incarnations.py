"""Rule X10: a stream that was made anew is another incarnation."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.incarnations import incarnation

IDS = st.integers(min_value=1, max_value=2**48)
TIMES = st.integers(min_value=0, max_value=2**44)


@given(IDS, IDS, TIMES)
def test_streams_of_one_moment_never_share_an_incarnation(one: int, other: int, now_ms: int) -> None:
    """X10."""
    assert (incarnation(one, now_ms) == incarnation(other, now_ms)) == (one == other)


@given(IDS, TIMES, TIMES)
def test_a_number_that_is_given_again_by_a_restored_folder_is_another_incarnation(
    id: int, one_ms: int, other_ms: int
) -> None:
    """X10."""
    assert (incarnation(id, one_ms) == incarnation(id, other_ms)) == (one_ms == other_ms)


@given(IDS, TIMES)
def test_an_incarnation_is_text_for_headers_and_tags(id: int, now_ms: int) -> None:
    """X10: sixteen hexadecimal digits, whatever it is made of."""
    text = incarnation(id, now_ms)
    assert len(text) == 16
    assert int(text, 16) >= 0
