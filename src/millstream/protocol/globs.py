"""Globs over stream paths: `*` matches within one segment, `**` any number of segments.

The pattern's segments are walked beside the path's. After a `**` the walk may step back, but only
to the last one: an earlier `**` could gain nothing that the later cannot. So no pattern explodes.

PROTOCOL.md 6.2; rules S5, X2.
"""

from collections.abc import Callable, Sequence


def glob_matches(pattern: str, name: str) -> bool:
    """Tell whether a name matches a pattern; leading slashes mean nothing."""
    return _walk(pattern.lstrip("/").split("/"), name.lstrip("/").split("/"), "**", _segment_matches)


def path_matches(pattern: str, path: str) -> bool:
    """Tell whether a path matches a pattern, to the slash: `//a` is another path than `/a`."""
    if not pattern.startswith("/"):
        pattern = "/" + pattern
    return _walk(pattern.split("/"), path.split("/"), "**", _segment_matches)


def _segment_matches(pattern: str, segment: str) -> bool:
    return pattern == segment or ("*" in pattern and _walk(pattern, segment, "*", str.__eq__))


def _walk(
    pattern: Sequence[str], text: Sequence[str], many: str, matches: Callable[[str, str], bool]
) -> bool:
    """Match a sequence in which the item `many` stands for any run of items."""
    at_pattern = at_text = 0
    resume_pattern = resume_text = -1
    while at_text < len(text):
        if at_pattern < len(pattern) and pattern[at_pattern] == many:
            resume_pattern, resume_text = at_pattern + 1, at_text
            at_pattern += 1
        elif at_pattern < len(pattern) and matches(pattern[at_pattern], text[at_text]):
            at_pattern += 1
            at_text += 1
        elif resume_pattern >= 0:
            resume_text += 1
            at_pattern, at_text = resume_pattern, resume_text
        else:
            return False
    return all(item == many for item in pattern[at_pattern:])
