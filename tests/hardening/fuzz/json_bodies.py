"""JSON bodies: the standard library's verdict, the same one in slices, and the same message boundaries.

Slices and windows have a few bytes here, so that short bodies take the way of long ones.
"""

import contextlib
import json
import re
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from random import Random
from unittest import mock

from hardening.fuzz.fuzzing import Target, stateless
from millstream.protocol import boundaries, json_frames, json_slices
from millstream.protocol.boundaries import Index, Messages, ScanUnfinishedError
from millstream.protocol.errors import MalformedError
from millstream.protocol.parts import parse_commit

TOKENS = (
    *rb"[ ] { } , : \u \\ \ud800 \udc00 \n \" \ ".split(),
    *b'null true false NaN Infinity -0 1e5 1E+400 0.10 - 01 .5 " "," ],[ "a":1 {"a": [[[[ ]]]]'.split(),
    *(b" ", b"\t", b"\r\n", b"\0", b"\x0c", b"\x7f", b"\xef\xbb\xbf", b"\xc3\xa4", b"\xc3", b"\xed\xa0\x80"),
    *(b'{"parts":["a"]}', b'{"parts":['),
    *(b"[" * 520, b"]" * 520, b'{"":' * 300, b"}" * 300),
)
_TEXTS = ("", "a", ",", "],[", '"', "\\", "\\u0041", "\n", "ä", "\ud800", "x" * 30, '","', "😀")
_SLICES = ((24, 7), (31, 16), (64, 24))
_WINDOWS = (3, 16)
_MAX_ATTEMPTS = 100_000  # an input has fewer windows
_SHALLOW_BYTES = 400  # less than this has fewer levels than anybody limits


def check(body: bytes) -> Hashable:
    """Check a body as a commit and as messages: whole, in slices, and what is stored of it in windows."""
    with contextlib.suppress(MalformedError):
        parse_commit({}, body)
    whole = _judged(body, json_frames._frame)
    for slice_bytes, window_bytes in _SLICES:
        with _small_slices(slice_bytes, window_bytes):
            sliced = _judged(body, json_frames.frame)
        assert _same(whole, sliced), f"in slices of {slice_bytes} bytes: {sliced!r}, whole: {whole!r}"
    if not isinstance(whole, bytes):
        if whole == "INVALID_JSON" or len(body) < _SHALLOW_BYTES:
            assert not _is_json(body) or _levels(body) > json_frames.MAX_DEPTH, "refused, but it is JSON"
        return whole
    assert _is_json(body), "accepted, but it is not JSON"
    _check_messages(body, whole)
    for window_bytes in _WINDOWS:
        with mock.patch.object(boundaries, "WINDOW_BYTES", window_bytes):
            _check_boundaries(whole)
    return _shape(body, whole)


def _judged(body: bytes, frame: Callable[[bytes], bytes]) -> bytes | str:
    try:
        return frame(body)
    except MalformedError as error:
        return error.code


def _same(whole: bytes | str, sliced: bytes | str) -> bool:
    """Tell whether two verdicts agree; of two reasons to refuse a body, either may be found first."""
    return whole == sliced or (isinstance(whole, str) and isinstance(sliced, str))


def _is_json(body: bytes) -> bool:
    def no_constant(name: str) -> object:
        raise ValueError(name)

    try:
        json.loads(body.decode(), parse_constant=no_constant, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _levels(body: bytes) -> int:
    deepest = depth = 0
    for byte in re.sub(rb'"(?:[^"\\]|\\.)*"', b"", body, flags=re.DOTALL):
        depth += (byte in b"[{") - (byte in b"]}")
        deepest = max(deepest, depth)
    return deepest


def _check_messages(body: bytes, stored: bytes) -> None:
    """Check that the stored messages are those of the body, with their own bytes."""
    ends = [0, *json_frames.message_ends(stored)]
    assert ends[-1] == len(stored)
    messages = [stored[start : end - 1] for start, end in pairwise(ends)]
    assert all(message in body for message in messages)
    with contextlib.suppress(RecursionError):  # the standard library's limit is not ours
        value = json.loads(body.decode(), parse_int=str, parse_float=str)
        found = [json.loads(message.decode(), parse_int=str, parse_float=str) for message in messages]
        assert found == (value if isinstance(value, list) else [value])


class _Stored:
    """One append, as `boundaries` sees it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._index = Index(0)

    def bounds(self, _position: int) -> tuple[int, int]:
        return 0, len(self._data)

    def fetch(self, start: int, end: int) -> bytes:
        return self._data[start:end]

    def index(self, _start: int) -> Index:
        return self._index


def _check_boundaries(stored: bytes) -> None:
    """Check that windows find the boundaries that parsing everything finds."""
    if not stored:
        return
    messages, position = Messages(_Stored(stored), 0), 0
    for end in json_frames.message_ends(stored)[:50]:
        assert _decided(lambda at=position: messages.first_after(at)) == end
        position = end
    last = len(stored) - 1
    assert _decided(lambda: messages.has_boundary(last)) is False


def _decided(decide: Callable[[], object]) -> object:
    for _ in range(_MAX_ATTEMPTS):
        with contextlib.suppress(ScanUnfinishedError):
            return decide()
    raise AssertionError("a scan does not end")


@contextmanager
def _small_slices(slice_bytes: int, window_bytes: int) -> Iterator[None]:
    with (
        mock.patch.object(json_frames, "SLICE_BYTES", slice_bytes),
        mock.patch.object(json_slices, "SLICE_BYTES", slice_bytes),
        mock.patch.object(json_slices, "_WINDOW_BYTES", window_bytes),
        mock.patch.object(json_slices, "_GUESS_BYTES", slice_bytes // 2),
    ):
        yield


def _shape(body: bytes, stored: bytes) -> Hashable:
    messages = min(len(json_frames.message_ends(stored)), 2)
    return messages, body.isascii(), b"\\ud" in body, min(_levels(body), 3), stored[:-1] in body


def generate(dice: Random) -> bytes:
    """Write a value, or several, as some client would."""
    value = (
        [_value(dice, 3) for _ in range(dice.choice((1, 2, 5, 40)))]
        if dice.random() < 0.8
        else _value(dice, 4)
    )
    text = json.dumps(
        value,
        indent=dice.choice((None, None, 1)),
        separators=dice.choice((None, (",", ":"), (" , ", " : "))),
        ensure_ascii=dice.random() < 0.5,
    )
    return text.encode(errors="surrogatepass")


def _value(dice: Random, levels: int) -> object:
    kind = dice.randrange(8 if levels else 5)
    if kind < 2:
        return dice.choice(_TEXTS)
    if kind < 5:
        return dice.choice((None, True, 0, -1, 10**18, 10**30, 1.5, 1e300, dice.getrandbits(20)))
    items = [_value(dice, levels - 1) for _ in range(dice.choice((0, 1, 3)))]
    return items if kind < 7 else {dice.choice(_TEXTS) + str(at): item for at, item in enumerate(items)}


TARGET = Target("json", stateless(check), generate, TOKENS)
