r"""Long JSON texts in slices, so that no single step over them takes long.

A body may be 16 MiB of JSON. Whatever is done to it in one call of a C function keeps every other thread of
Python waiting, so it is done to some kilobytes at a time. Text can be cut in two ways:

        items     at commas between the items of an array: each slice is an array of its own
        windows   anywhere but inside a string, or inside a long one, whose content does not matter

Commas are guessed first, from the text around them; whoever asked for a slice finds out whether it is valid.
If no guess was right, brackets are counted, by functions that loop in C: there is no Python code per item.
"""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import accumulate, compress, count
from operator import lt
from typing import Final

SLICE_BYTES: Final = 64 * 1024
_WINDOW_BYTES: Final = 16 * 1024
_GUESSES: Final = 3
_GUESS_BYTES: Final = 4096

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_OUTSIDE = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"]*+)*+', re.DOTALL)
_INSIDE = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SPACE = rb"[ \t\r\n]*+"
_LEADING = re.compile(_SPACE)
_BETWEEN = {
    opening: re.compile(closing + _SPACE + b"(,)" + _SPACE + re.escape(opening))
    for opening, closing in ((b"{", rb"\}"), (b"[", rb"\]"), (b'"', b'"'))
}
"""The comma between two items that begin with the same character."""

_DELTA = [(byte in b"[{") - (byte in b"]}") for byte in range(256)]
_IS_COMMA = [byte in b"," for byte in range(256)]


def guess_ends(text: bytes, start: int) -> Iterator[int]:
    """Guess where a slice of items that begins at `start` may end: at a comma, the most likely first."""
    stop = start + SLICE_BYTES
    first = _end(_LEADING, text, start, stop)
    between = _BETWEEN.get(text[first : first + 1])
    if between is not None:
        found = between.finditer(text, max(start, stop - _GUESS_BYTES), stop)
        yield from reversed([match.start(1) for match in deque(found, maxlen=_GUESSES)])
    comma = text.rfind(b",", start, stop)
    if comma > start:
        yield comma


def find_end(text: bytes, start: int) -> int:
    """Find where a slice of items that begins at `start` may end, for certain if the text is valid.

    It is a comma, or the end of the text when there is no further item.
    """
    depth = 0
    for begin, end in windows(text, start):
        comma, depth = _last_comma(text[begin:end], depth)
        if comma >= 0:
            return begin + comma
    return len(text)


def depth_of(text: bytes) -> int:
    """Count the levels of arrays and objects in a valid text."""
    depth = deepest = 0
    for begin, end in windows(text, 0):
        brackets = _STRING.sub(b"", text[begin:end]).translate(None, _NO_BRACKETS)
        levels = list(accumulate(map(_DELTA.__getitem__, brackets), initial=depth))
        deepest, depth = max(deepest, max(levels)), levels[-1]
    return deepest


_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def windows(text: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yield the text's parts, with whole strings only; strings that are cut by a window are left out."""
    while start < len(text):
        limit = min(start + _WINDOW_BYTES, len(text))
        end = _end(_OUTSIDE, text, start, limit)
        yield start, end
        start = end if end == limit else _after_string(text, end + 1)


def _after_string(text: bytes, start: int) -> int:
    """Find the end of a string, which may be long; the end of the text if the string has none."""
    while start < len(text):
        end = _end(_INSIDE, text, start, min(start + _WINDOW_BYTES, len(text)))
        if text[end : end + 1] == b'"':
            return end + 1
        if end == start:  # a backslash is the last character
            break
        start = end
    return len(text)


def _end(pattern: re.Pattern[bytes], text: bytes, start: int, limit: int) -> int:
    match = pattern.match(text, start, limit)
    assert match is not None  # the patterns match nothing, too
    return match.end()


def _last_comma(window: bytes, depth: int) -> tuple[int, int]:
    """Find the last comma outside of all brackets, or -1, and the depth behind a window."""
    texts = _STRING.split(window)
    bare = b"".join(texts)
    levels = list(accumulate(map(_DELTA.__getitem__, bare), initial=depth))
    are_found = map(lt, levels, map(_IS_COMMA.__getitem__, bare))  # level 0, and a comma
    last = deque(compress(count(), are_found), maxlen=1)
    if not last:
        return -1, levels[-1]
    texts_before = bisect_right(list(accumulate(map(len, texts))), last[0])
    strings_before = _STRING.findall(window)[:texts_before]
    return last[0] + sum(map(len, strings_before)), levels[-1]
