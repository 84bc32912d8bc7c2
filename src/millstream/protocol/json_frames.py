r"""JSON streams: how a body is split into messages, stored, and returned as an array.

Each message is stored as its own bytes followed by a comma, so that any run of whole messages
turns into a JSON array by wrapping it, without parsing:

        POST    [{"a":1}, {"a": 2.50}]    one level of array is flattened
        stored  {"a":1},{"a": 2.50},      big integers, key order and spacing are unchanged
        GET     [{"a":1},{"a": 2.50}]     "[" + stored without its last comma + "]"

PROTOCOL.md 9.1; rules A3, A10, G4.
"""

import codecs
import contextlib
import itertools
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from millstream.protocol.errors import MalformedError
from millstream.protocol.json_slices import SLICE_BYTES, depth_of, find_end, guess_ends

MAX_DEPTH: Final = 512

_array = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)

_Message = bytes | msgspec.Raw
"""The bytes of a message; a `Raw` is a view into its body, not a copy."""

_SPACE = b" \t\n\r"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_PLACE = re.compile(r"\(byte (\d+)\)")
_LONGEST_ESCAPE = len(rb"\ufffd")


def frame(body: bytes) -> bytes:
    """Check a request body and give the bytes to store: its messages, each followed by a comma.

    An empty array gives no bytes; the caller decides whether that is allowed.
    """
    if len(body) <= SLICE_BYTES:
        return _frame(body)
    text = body.strip(_SPACE)
    if text[:1] != b"[":
        return _frame(text)
    if text[-1:] != b"]":
        raise MalformedError("INVALID_JSON", "The body is not valid JSON: an array does not end.")
    return b"".join(_frame_items(text[1:-1].strip(_SPACE)))


def _frame_items(items: bytes) -> Iterator[bytes]:
    """Frame the items of an array in slices, see `json_slices`."""
    start = end = 0
    while len(items) - start > SLICE_BYTES:
        for end in itertools.chain(guess_ends(items, start), _end_of_long_item(items, start)):
            with contextlib.suppress(MalformedError):
                framed = _frame(b"[%b]" % items[start:end])
                break
        else:
            end = find_end(items, start)
            framed = _frame(b"[%b]" % items[start:end], start)
        yield framed or _no_item()
        if end == len(items):
            return
        start = end + 1
    yield _frame(b"[%b]" % items[start:], start) or (_no_item() if items else b"")


def _end_of_long_item(items: bytes, start: int) -> Iterator[int]:
    """Guess the end of an item that is longer than a slice: msgspec says where it found something else."""
    try:
        _value.decode(memoryview(items)[start:])
    except (msgspec.DecodeError, RecursionError) as error:
        place = _PLACE.search(str(error))
        comma = items.rfind(b",", start, start + int(place[1])) if place is not None else -1
        if comma > start + SLICE_BYTES:  # a guess as good as any other: what it gives is checked
            yield comma
    else:
        yield len(items)


def _frame(body: bytes, start: int = 0) -> bytes:
    """Frame a body, or a slice of one that starts at a byte."""
    try:
        _check_text(body)
        messages = _messages(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        where = f", in the part from byte {start} on" if start else ""
        raise MalformedError("INVALID_JSON", f"The body is not valid JSON: {error}{where}.") from None
    except RecursionError:
        raise _too_deep() from None
    if not messages:
        return b""
    is_array = _is_array(body)
    levels = MAX_DEPTH - is_array  # the flattened array counts as a level
    least = 2 * levels  # a value that is nested deeper has at least two bytes for each level
    if len(body) > least:
        lengths = list(map(len, messages))
        if max(lengths) > least and any(
            len(one) > least and _is_deep(bytes(one), levels) for one in messages
        ):
            raise _too_deep()
        if is_array and sum(lengths) + len(messages) + 1 == len(body):  # no spaces around messages
            return b"".join((memoryview(body)[1:-1], b","))
    return b",".join([*messages, b""])


def _check_text(body: bytes) -> None:
    """Check that a text is UTF-8, which msgspec does not do inside of `Raw` values."""
    if body.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(body), SLICE_BYTES):
        decoder.decode(body[start : start + SLICE_BYTES])
    decoder.decode(b"", final=True)


def wrap(stored: bytes) -> bytes:
    """Turn stored messages into the JSON array that readers get."""
    return b"".join((b"[", memoryview(stored)[:-1], b"]"))  # a single copy: it may be large


def message_ends(stored: bytes) -> list[int]:
    """Find the end of each stored message, its comma included, as an offset from the first byte."""
    return (
        list(itertools.accumulate(len(message) + 1 for message in _messages(wrap(stored)))) if stored else []
    )


def split(body: bytes) -> list[bytes]:
    """Split a body into the bytes of its messages: the items of an array, or one other value."""
    return [bytes(message) for message in _messages(body)]


def _messages(body: bytes) -> list[_Message]:
    try:
        return _parse(body)
    except msgspec.DecodeError:
        # JSON allows an escaped surrogate without its partner, and JavaScript writes them; msgspec
        # rejects them. Validate with a replacement of the same length, keep the original bytes.
        replaced = _without_surrogates(body)
        if replaced == body:
            raise
    messages: list[_Message] = []
    start = 0
    for message in _parse(replaced):
        start = replaced.index(message, start)
        messages.append(body[start : start + len(message)])
        start += len(message)
    return messages


def _is_array(body: bytes) -> bool:
    return body.lstrip(_SPACE)[:1] == b"["


def _parse(body: bytes) -> list[_Message]:
    return list(_array.decode(body)) if _is_array(body) else [_value.decode(body)]


def _without_surrogates(body: bytes) -> bytes:
    """Replace escaped surrogates by another character, in steps that do not cut an escape."""
    text = body.replace(rb"\\", b"__")  # then every backslash begins an escape
    pieces, start = [], 0
    while start < len(text):
        end = start + SLICE_BYTES
        if end < len(text):
            escape = text.rfind(b"\\", end - _LONGEST_ESCAPE + 1, end)
            end = escape if escape > start else end
        pieces.append(_SURROGATE.sub(rb"\\ufffd", text[start:end]))
        start = end
    return b"".join(pieces)


def _is_deep(message: bytes, levels: int) -> bool:
    if message.count(b"[") + message.count(b"{") <= levels:
        return False  # too few brackets
    return depth_of(message) > levels


def _no_item() -> bytes:
    raise MalformedError("INVALID_JSON", "The body is not valid JSON: an item is missing beside a comma.")


def _too_deep() -> MalformedError:
    return MalformedError("JSON_TOO_DEEP", f"The body nests more than {MAX_DEPTH} levels of JSON.")
