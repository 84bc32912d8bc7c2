"""Globs: the compiled matcher against a model that tries every way to match.

An input is a pattern, a line break, and a path.
"""

from collections.abc import Hashable
from functools import lru_cache
from random import Random

from hardening.fuzz.fuzzing import Target, stateless
from millstream.protocol.globs import MAX_GLOB_BYTES, glob_matches, path_matches
from millstream.protocol.names import MAX_NAME_BYTES

TOKENS = (b"\n", *b"/ // * ** *** /**/ /* a b ab a*b ? [a] \xc3\xa4".split())
_MODEL_BYTES = 200  # the model is slow


def check(data: bytes) -> Hashable:
    """Check whether a path matches, with slashes that count and with some that do not."""
    pattern, _, path = data.decode(errors="replace").partition("\n")
    pattern, path = pattern[:MAX_GLOB_BYTES], path[:MAX_NAME_BYTES]
    by_name = glob_matches(pattern, path)
    by_path = path_matches(pattern, path)
    if len(pattern) + len(path) <= _MODEL_BYTES:
        assert by_name is _matches(pattern.lstrip("/"), path.lstrip("/"))
        assert by_path is _matches(pattern if pattern.startswith("/") else "/" + pattern, path)
    kinds = "**" in pattern, "*" in pattern.replace("**", ""), "//" in pattern
    return by_name, by_path, kinds, min(pattern.count("/"), 2)


def _matches(pattern: str, path: str) -> bool:
    wanted, given = pattern.split("/"), path.split("/")

    @lru_cache(None)
    def rest_matches(at: int, read: int) -> bool:
        if at == len(wanted):
            return read == len(given)
        if wanted[at] == "**":
            return any(rest_matches(at + 1, later) for later in range(read, len(given) + 1))
        return (
            read < len(given) and _segment_matches(wanted[at], given[read]) and rest_matches(at + 1, read + 1)
        )

    return rest_matches(0, 0)


def _segment_matches(pattern: str, segment: str) -> bool:
    @lru_cache(None)
    def rest_matches(at: int, read: int) -> bool:
        if at == len(pattern):
            return read == len(segment)
        if pattern[at] == "*":
            return any(rest_matches(at + 1, later) for later in range(read, len(segment) + 1))
        return read < len(segment) and pattern[at] == segment[read] and rest_matches(at + 1, read + 1)

    return rest_matches(0, 0)


def generate(dice: Random) -> bytes:
    """Make a path of few letters, and a pattern that may match it."""
    times = dice.choice((1, 3, 6, 100))
    path = "/".join(_segment(dice, "ab") for _ in range(times))
    if dice.random() < 0.5:
        pattern = "/".join(
            dice.choice(("*", "**", segment, segment[:1] + "*")) for segment in path.split("/")
        )
    else:
        pattern = "/".join(_segment(dice, "ab**") for _ in range(times))
    return f"{pattern}\n/{path}".encode()


def _segment(dice: Random, letters: str) -> str:
    return "".join(dice.choice(letters) for _ in range(dice.choice((0, 1, 2, 3, 3, 20))))


TARGET = Target("globs", stateless(check), generate, TOKENS)
