"""Names in order."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.names import SortedNames

names = st.text("ab/", max_size=4)


@given(st.lists(st.tuples(st.booleans(), names)), names, names)
def test_a_walk_is_what_a_sorted_set_would_give(
    changes: list[tuple[bool, str]], prefix: str, after: str
) -> None:
    sorted_names, model = SortedNames(), set[str]()
    for number, (add, name) in enumerate(changes):
        if add and name not in model:
            sorted_names.add(name)
            model.add(name)
        elif not add and name in model:
            sorted_names.remove(name)
            model.remove(name)
        if number % 3 == 0:
            assert list(sorted_names.walk("", "")) == sorted(model - {""})
    expected = sorted(name for name in model if name.startswith(prefix) and name > after)
    assert list(sorted_names.walk(prefix, after)) == expected


@given(st.lists(st.tuples(st.booleans(), names)))
def test_it_is_a_set(changes: list[tuple[bool, str]]) -> None:
    sorted_names, model = SortedNames(), set[str]()
    for number, (add, name) in enumerate(changes):
        if not add:
            sorted_names.discard(name)
            model.discard(name)
        elif name not in model:
            sorted_names.add(name)
            model.add(name)
        if number % 3 == 0:
            assert len(list(sorted_names.walk("", ""))) == len(model - {""})
        assert len(sorted_names) == len(model)
        assert (name in sorted_names) == (name in model)


@given(st.lists(names, unique=True, min_size=1), st.data())
def test_a_walk_goes_on_while_names_come_and_go(found: list[str], data: st.DataObject) -> None:
    sorted_names = SortedNames()
    for name in found:
        sorted_names.add(name)
    removed = set(data.draw(st.lists(st.sampled_from(found))))
    walked: list[str] = []
    for name in sorted_names.walk("", ""):
        walked.append(name)
        for gone in removed:
            sorted_names.discard(gone)
        sorted_names.discard("new")
        sorted_names.add("new")
        list(sorted_names.walk("", ""))  # another walk, which merges
    assert walked == sorted(set(walked))
    assert set(found) - removed - {""} <= set(walked)
