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
