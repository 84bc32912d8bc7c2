"""S5: an index of globs finds what each glob alone would match, and nothing makes it slow."""

import time

from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.globs import path_matches
from millstream.protocol.subscriptions.glob_index import GlobIndex

segments = st.sampled_from(["a", "b", "ab", "aab", "", "x*", "*"])
wild = st.sampled_from(["a", "b", "*", "**", "a*", "*b", "a*b", "*a*", "***", "x"])
globs = st.lists(wild, min_size=1, max_size=6).map(lambda parts: "/" + "/".join(parts))
paths = st.lists(segments, min_size=1, max_size=6).map(lambda parts: "/" + "/".join(parts))


@given(st.lists(globs, max_size=12), st.lists(paths, min_size=1, max_size=8), st.data())
def test_it_finds_what_each_glob_matches(owned: list[str], asked: list[str], data: st.DataObject) -> None:
    index = GlobIndex()
    for number, glob in enumerate(owned):
        index.add(glob, f"{number:02d}")
    left = list(enumerate(owned))
    for number, glob in data.draw(st.lists(st.sampled_from(left), unique=True)) if left else []:
        index.remove(glob, f"{number:02d}")
        left.remove((number, glob))
    for path in asked:
        assert index.owners(path) == [f"{n:02d}" for n, glob in left if path_matches(glob, path)]
    for number, glob in left:
        index.remove(glob, f"{number:02d}")
    assert index._root.is_empty


def test_a_glob_of_twenty_deep_stars_is_matched_at_once() -> None:
    index = GlobIndex()
    index.add("/" + "/".join(["**", "a"] * 20 + ["**", "c"]), "slow")
    path = "/" + "/".join(["a"] * 200)
    began_s = time.thread_time()
    for _ in range(10):
        assert index.owners(path) == []
    # Ten in less than what one may take; a matcher that goes back takes for ever.
    assert time.thread_time() - began_s < 1
