"""Rows of content, as they are written in the database."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.postgres.encoding import Row, encode_index

APPENDS = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)), min_size=1, max_size=50)


@given(APPENDS, st.integers(0, 2**50))
def test_a_row_knows_where_its_appends_end_and_when_they_came(
    appends: list[tuple[int, int]], start: int
) -> None:
    sizes, times = [size for size, _ in appends], [time_ms for _, time_ms in appends]
    row = Row(start, start + sum(sizes), 7, encode_index(sizes, times))
    assert row.count == len(appends)
    assert list(row.times) == times
    assert list(row.ends) == [start + sum(sizes[: number + 1]) for number in range(len(sizes))]
