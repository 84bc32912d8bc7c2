"""Globs over stream paths: `*` matches within one segment, `**` any number of segments.

Pattern and path are compared segment by segment. After a mismatch the match backtracks to the last `**`
only: an earlier one cannot match anything that the last cannot. So the time is bounded by the product of
both lengths, whatever the pattern is.

PROTOCOL.md 6.2; rules S5, X2.
"""

from collections.abc import Sequence


def glob_matches(pattern: str, name: str) -> bool:
    """Tell whether a name matches a pattern, without regard to leading slashes."""
    return _walk(pattern.lstrip("/").split("/"), name.lstrip("/").split("/"))


def path_matches(pattern: str, path: str) -> bool:
    """Tell whether a path matches a pattern exactly: `//a` is another path than `/a`."""
    if not pattern.startswith("/"):
        pattern = "/" + pattern
    return _walk(pattern.split("/"), path.split("/"))


def _segment_matches(pattern: str, segment: str) -> bool:
    """Match one segment: the first and last literal at its ends, the others where each is found first."""
    if "*" not in pattern:
        return pattern == segment
    first, *middle, last = pattern.split("*")
    at, end = len(first), len(segment) - len(last)
    if at > end or not segment.startswith(first) or not segment.endswith(last):
        return False
    for piece in middle:
        at = segment.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def _walk(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Match a sequence of segments in which `**` stands for any run of them."""
    at_pattern = at_path = 0
    resume_pattern = resume_path = -1
    while at_path < len(path):
        if at_pattern < len(pattern) and pattern[at_pattern] == "**":
            resume_pattern, resume_path = at_pattern + 1, at_path
            at_pattern += 1
        elif at_pattern < len(pattern) and _segment_matches(pattern[at_pattern], path[at_path]):
            at_pattern += 1
            at_path += 1
        elif resume_pattern >= 0:
            resume_path += 1
            at_pattern, at_path = resume_pattern, resume_path
        else:
            return False
    return all(item == "**" for item in pattern[at_pattern:])
