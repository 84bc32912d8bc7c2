"""Checksums of the catalog's pages: of those that have changed, which are read in runs, and of new ones."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.pages import _RUN_PAGES, _runs
from millstream.store.log.catalog.rows import Changes


@given(st.sets(st.integers(0, 300)), st.integers(0, 300))
def test_runs_cover_each_page_once(numbers: set[int], last: int) -> None:
    found = list(_runs(sorted(numbers), last))
    assert all(end - begin < _RUN_PAGES for begin, end in found)
    covered = [number for begin, end in found for number in range(begin, end + 1)]
    assert covered == sorted(number for number in numbers if 0 < number <= last)


def test_pages_that_follow_each_other_are_one_run() -> None:
    assert list(_runs(range(1, 130), 130)) == [(1, 64), (65, 128), (129, 129)]


def test_a_page_that_no_transaction_wrote_has_a_checksum(tmp_path: Path) -> None:
    """SQLite takes what is left behind the last page for one more, and makes it a whole page."""
    path = tmp_path / "catalog.db"
    Catalog(path).close()
    with path.open("ab") as file:
        file.write(b"sixteen bytes...")
    catalog = Catalog(path)
    assert catalog.damage == []
    catalog.checkpoint(Changes([], [], [], {"applied_lsn": 7}))
    catalog.close()
    again = Catalog(path)
    assert again.damage == []
    again.close()
