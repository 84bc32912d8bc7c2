"""Pages of the catalog are read in runs: each that has changed, and none twice."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.log.catalog.pages import _RUN_PAGES, _runs


@given(st.sets(st.integers(0, 300)), st.integers(0, 300))
def test_runs_cover_each_page_once(numbers: set[int], last: int) -> None:
    found = list(_runs(sorted(numbers), last))
    assert all(end - begin < _RUN_PAGES for begin, end in found)
    covered = [number for begin, end in found for number in range(begin, end + 1)]
    assert covered == sorted(number for number in numbers if 0 < number <= last)


def test_pages_that_follow_each_other_are_one_run() -> None:
    assert list(_runs(range(1, 130), 130)) == [(1, 64), (65, 128), (129, 129)]
