"""The catalog: look-ups of many streams."""

import sqlite3
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.rows import BEGINNING, Changes, Row
from millstream.store.log.pace import no_rest


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


def add(catalog: Catalog, first_id: int, names: list[str]) -> None:
    rows = [Row.checked(id, name, None, 0, 0, b"", b"") for id, name in enumerate(names, first_id)]
    catalog.checkpoint(Changes(rows, [], [], {}))


NAMES = st.sets(st.text(st.characters(codec="utf-8", exclude_categories=("Cc",)), min_size=1), max_size=30)


@given(NAMES, NAMES)
def test_whatever_was_there_before_names_were_learned_and_came_after_is_found(
    before: set[str], after: set[str]
) -> None:
    catalog = Catalog(":memory:")
    add(catalog, 1, sorted(before))
    catalog.learn_names(no_rest, lambda: True)
    add(catalog, 100, sorted(after - before))
    for name in before | after:
        assert catalog.by_name(name) is not None
    assert {row.name for row in catalog.by_names(sorted(before | after))} == before | after
    assert catalog.by_name("no name of these texts, which have one character or a few") is None
    catalog.close()


def test_names_that_come_while_names_are_learned_are_found(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    add(catalog, 1, [f"/{number:04}" for number in range(2_500)])
    pauses = 0

    def rest() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 1_500:  # of names that come before and after those of the present page
            add(catalog, 10_000, ["/0000+", "/9999"])

    catalog.learn_names(rest, lambda: True)
    assert all(catalog.by_name(name) for name in ("/0000", "/0000+", "/1000", "/2499", "/9999"))
    assert catalog.by_name("/2500") is None
    catalog.close()


def test_a_new_name_needs_no_query_once_names_are_learned(tmp_path: Path) -> None:
    catalog, path = Catalog(tmp_path / "catalog.db"), tmp_path / "catalog.db"
    add(catalog, 1, ["/known"])
    catalog.learn_names(no_rest, lambda: False)
    assert catalog.by_name("/new") is None  # by a query: learning was given up
    catalog.learn_names(no_rest, lambda: True)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("update streams set name = '/new'")  # what no query sees
    assert catalog.by_name("/new") is None
    other.close()
    catalog.close()
