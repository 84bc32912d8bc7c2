"""A tree that is drawn while its paths come."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.cli.trees import Tree


def drawn(paths: list[str]) -> list[str]:
    tree, rows = Tree(), []
    for path in sorted(paths):
        folders, own = tree.place(path)
        rows += [f"{'  ' * depth}{label}" for depth, label in (*folders, own)]
    return rows


def test_folders_are_shown_once() -> None:
    assert drawn(["/a", "/a-b", "/a/x", "/a/y/z", "/b"]) == ["a", "a-b", "a/", "  x", "  y/", "    z", "b"]


@given(
    st.sets(
        st.lists(st.sampled_from(["a", "b", "-"]), min_size=1, max_size=4).map(
            lambda parts: "/" + "/".join(parts)
        )
    )
)
def test_every_folder_is_shown_exactly_once(paths: set[str]) -> None:
    folders = {path[: at + 1] for path in paths for at in range(1, len(path)) if path[at] == "/"}
    assert len([row for row in drawn(list(paths)) if row.endswith("/")]) == len(folders)
