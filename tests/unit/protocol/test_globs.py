"""Globs over paths: rules S5, X2."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.globs import glob_matches, path_matches


@pytest.mark.parametrize(
    ("pattern", "name", "match"),
    [
        ("/a", "/a", True),
        ("a", "/a", True),
        ("/a", "/a/b", False),
        ("*", "/a", True),
        ("*", "/a/b", False),
        ("**", "/a/b/c", True),
        ("/chat/*", "/chat/1", True),
        ("/chat/*", "/chat", False),
        ("/chat/*", "/chat/1/2", False),
        ("/chat/**", "/chat/1/2", True),
        ("/chat/**", "/chat", True),
        ("/chat/**/end", "/chat/end", True),
        ("/chat/**/end", "/chat/1/2/end", True),
        ("/chat/**/end", "/chat/1/2/ending", False),
        ("**/b/**", "/a/b/c", True),
        ("a*c", "/abbbc", True),
        ("a*c", "/ab/c", False),
        ("*a*b*", "/xaxbx", True),
        ("a?c", "/abc", False),
        ("[ab]", "/a", False),
        ("a.c", "/abc", False),
        ("**a", "/xa", True),  # inside a segment two stars are as good as one
        ("/A", "/a", False),
        ("", "/a", False),
    ],
)
def test_a_star_stays_in_its_segment_and_two_stars_do_not(pattern: str, name: str, match: bool) -> None:
    """X2."""
    assert glob_matches(pattern, name) is match


def oracle(pattern: str, name: str) -> bool:
    """The same by a regular expression, which may take for ever but is plainly right."""
    segments = [
        "(?:[^/]+/)*" if part == "**" else part.replace("*", "[^/]*") + "/" for part in pattern.split("/")
    ]
    return re.fullmatch("".join(segments), name + "/") is not None


segments = st.sampled_from(["a", "b", "ab", "aab"])
patterns = st.lists(segments | st.sampled_from(["*", "**", "a*", "*b", "a*b", "*a*"]), min_size=1, max_size=6)


@given(patterns.map("/".join), st.lists(segments, min_size=1, max_size=6).map("/".join))
def test_globs_agree_with_regular_expressions(pattern: str, name: str) -> None:
    """X2."""
    assert glob_matches(pattern, "/" + name) is oracle(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("/".join(["**/a"] * 20), "/".join(["a"] * 100)),
        ("/".join(["**/a"] * 20) + "/b", "/".join(["a"] * 100)),
        ("*a" * 20 + "b", "a" * 500),
        ("/".join(["**/*a*a*b"] * 20), "/".join(["a" * 20] * 50)),
        ("**/" + "a/" * 500 + "b", "/".join(["a"] * 512)),
        ("**/" + "*a/" * 300 + "b", "/".join(["a"] * 512)),
        ("/".join(f"**/{chr(n)}*" for n in range(200, 370)), "/".join(map(chr, range(200, 540)))),
    ],
)
def test_no_pattern_explodes(pattern: str, name: str) -> None:
    """S5: milliseconds, where backtracking takes seconds or years; a page of a listing matches many."""
    begun_s = time.thread_time()
    for _ in range(10):
        glob_matches(pattern, name)
    assert time.thread_time() - begun_s < 2


@pytest.mark.parametrize(
    ("pattern", "path", "match"),
    [
        ("/a", "/a", True),
        ("a", "/a", True),
        ("/a", "//a", False),
        ("//a", "//a", True),
        ("/a", "/a/", False),
        ("/*", "//a", False),
        ("/**", "//a", True),
        ("**", "//a", True),
        ("**/a", "/b/a", True),
        ("/a/**", "/a", True),
        ("/a/**", "//a/b", False),
    ],
)
def test_a_path_matches_to_the_slash(pattern: str, path: str, match: bool) -> None:
    """P3: what differs in a slash is another stream, and another's."""
    assert path_matches(pattern, path) is match
