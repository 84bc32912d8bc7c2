"""The catalog: look-ups of many streams."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.rows import BEGINNING, Changes, Row


def catalog_of(deadlines: list[int | None]) -> Catalog:
    catalog = Catalog(":memory:")
    rows = [Row.checked(id, f"/{id}", due, 0, 0, b"", b"") for id, due in enumerate(deadlines, 1)]
    catalog.checkpoint(Changes(rows, [], [], {}))
    return catalog


@given(st.lists(st.none() | st.integers(0, 5), max_size=20), st.integers(0, 6), st.integers(1, 4))
def test_pages_give_each_stream_that_is_due_once_and_in_order(
    deadlines: list[int | None], now_ms: int, limit: int
) -> None:
    catalog, after, found = catalog_of(deadlines), BEGINNING, []
    while page := catalog.due(now_ms, after, limit):
        assert len(page) <= limit
        found += [(due.deadline_ms, due.stream_id) for due in page]
        after = page[-1]
    expected = [(deadline, id) for id, deadline in enumerate(deadlines, 1) if deadline is not None]
    assert found == sorted(due for due in expected if due[0] <= now_ms)
    catalog.close()


def test_many_names_are_found_at_once() -> None:
    catalog = catalog_of([None] * 5)
    assert {row.name for row in catalog.by_names(["/2", "/nothing", "/4", "/\0'\""])} == {"/2", "/4"}
    assert catalog.by_names([]) == []
    catalog.close()
