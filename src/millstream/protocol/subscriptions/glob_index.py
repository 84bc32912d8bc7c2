"""Which of very many globs match a path, without trying each: a tree of their segments.

        events / * / created          tree    events --- * ----- created   1
        events / ** / failed                        `--- ** ---- failed    2
        users  / eu-*                         users ---- eu-*              3

A path is read segment by segment, and all ways that match go on at the same time, each at most once. So the
time depends on the path and on how many ways there are that begin like it, not on how many globs. A way
below `**` stays where it is with every further segment; there is no going back, and no glob can make it
slow.

Segments with a star among other characters (`eu-*`) are found by what is before their first star and after
their last one, so that many of them in one place are not compared one by one.

What matches is what `globs.path_matches` says. Rule S5.
"""

from collections.abc import Iterator

from millstream.protocol.globs import path_matches


class _Node:
    """A place in the tree: where the next segment leads, and who has a glob that ends here."""

    __slots__ = ("any", "deep", "is_deep", "literal", "owners", "shapes", "wild")

    def __init__(self, *, is_deep: bool = False) -> None:
        self.is_deep = is_deep
        """Whether it stays with any further segment: what was read last is `**`."""
        self.literal: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.deep: _Node | None = None
        self.wild: dict[tuple[str, str], dict[str, _Node]] = {}  # by beginning and end, then by the segment
        self.shapes: dict[tuple[int, int], int] = {}  # how many of these have beginnings and ends so long
        self.owners: set[str] = set()

    @property
    def is_empty(self) -> bool:
        has_ways = self.literal or self.any or self.deep or self.wild
        return not has_ways and not self.owners

    def child(self, segment: str) -> "_Node | None":
        """Find where a segment of a glob leads."""
        if segment == "**":
            return self.deep
        if segment and not segment.strip("*"):
            return self.any
        if "*" in segment:
            return self.wild.get(_ends(segment), {}).get(segment)
        return self.literal.get(segment)

    def add_child(self, segment: str) -> "_Node":
        """Add a way for a segment of a glob."""
        child = _Node(is_deep=segment == "**")
        if segment == "**":
            self.deep = child
        elif segment and not segment.strip("*"):
            self.any = child
        elif "*" in segment:
            ends = _ends(segment)
            if ends not in self.wild:
                self.wild[ends] = {}
                shape = len(ends[0]), len(ends[1])
                self.shapes[shape] = self.shapes.get(shape, 0) + 1
            self.wild[ends][segment] = child
        else:
            self.literal[segment] = child
        return child

    def remove_child(self, segment: str) -> None:
        """Remove a way."""
        if segment == "**":
            self.deep = None
        elif segment and not segment.strip("*"):
            self.any = None
        elif "*" in segment:
            ends = _ends(segment)
            del self.wild[ends][segment]
            if not self.wild[ends]:
                del self.wild[ends]
                shape = len(ends[0]), len(ends[1])
                self.shapes[shape] -= 1
                if not self.shapes[shape]:
                    del self.shapes[shape]
        else:
            del self.literal[segment]

    def after(self, segment: str) -> "Iterator[_Node]":
        """Give where a segment of a path leads."""
        if self.is_deep:
            yield self
        found = self.literal.get(segment)
        if found is not None:
            yield found
        if self.any is not None:
            yield self.any
        for first, last in self.shapes:
            if first + last <= len(segment):
                ends = segment[:first], segment[len(segment) - last :]
                for pattern, node in self.wild.get(ends, {}).items():
                    if path_matches(pattern, f"/{segment}"):
                        yield node


class GlobIndex:
    """Globs, each with its owners."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, glob: str, owner: str) -> None:
        """Add a glob of an owner."""
        node = self._root
        for segment in _segments(glob):
            node = node.child(segment) or node.add_child(segment)
        node.owners.add(owner)

    def remove(self, glob: str, owner: str) -> None:
        """Remove a glob of an owner."""
        node, way = self._root, []
        for segment in _segments(glob):
            way.append((node, segment))
            below = node.child(segment)
            assert below is not None  # it was added
            node = below
        node.owners.discard(owner)
        while way and node.is_empty:
            node, segment = way.pop()
            node.remove_child(segment)

    def owners(self, path: str) -> list[str]:
        """Give the owners of globs that match a path, in order."""
        nodes = _closed([self._root])
        for segment in path.split("/")[1:]:
            nodes = _closed([below for node in nodes for below in node.after(segment)])
            if not nodes:
                return []
        return sorted({owner for node in nodes for owner in node.owners})


def _closed(nodes: list[_Node]) -> list[_Node]:
    """Add what is reached without a segment: `**` matches none, too."""
    found = dict.fromkeys(nodes)
    for node in list(found):
        while node.deep is not None:
            node = node.deep
            found[node] = None
    return list(found)


def _segments(glob: str) -> list[str]:
    """Split an absolute glob; one `**` after the other is as good as one."""
    segments = glob.split("/")[1:]
    return [
        segment
        for place, segment in enumerate(segments)
        if segment != "**" or not place or segments[place - 1] != "**"
    ]


def _ends(segment: str) -> tuple[str, str]:
    first, *_, last = segment.split("*")
    return first, last
