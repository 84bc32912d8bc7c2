r"""JSON streams: how messages are cut from a body, kept, and put back into an array.

Each message is stored as its own bytes followed by a comma, so that any run of whole messages
turns into a JSON array by wrapping it, without parsing:

        POST  [{"a":1}, {"a": 2.50}]      one level of array is flattened
        kept  {"a":1},{"a": 2.50},        big integers, key order and spacing survive
        GET   [{"a":1},{"a": 2.50}]       "[" + kept without its last comma + "]"

PROTOCOL.md 9.1; rules A3, A10, G4.
"""

import re
from itertools import accumulate
from typing import Final

import msgspec

from millstream.protocol.errors import MalformedError

MAX_DEPTH: Final = 512

_array = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)

_Message = bytes | msgspec.Raw
"""The bytes of a message; a `Raw` is a view of its body, so that nothing is copied."""

_SPACE = b" \t\n\r"
_NESTING = re.compile(rb'[\[\]{}]|"(?:[^"\\]|\\.)*+"', re.DOTALL)
_SURROGATE = re.compile(rb"(\\\\)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def frame(body: bytes) -> bytes:
    """Check a request body and give the bytes to store: its messages, each followed by a comma.

    An empty array gives no bytes; whether that is allowed is the caller's question.
    """
    try:
        if not body.isascii():
            body.decode()  # msgspec does not check the text inside the values that it passes over
        messages = _messages(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError("INVALID_JSON", f"The body is not valid JSON: {error}.") from None
    except RecursionError:
        raise _too_deep() from None
    if not messages:
        return b""
    is_array = _is_array(body)
    levels = MAX_DEPTH - is_array  # the array that is flattened counts too
    least = 2 * levels  # a value that is nested deeper is at least two bytes a level long
    if len(body) > least:
        lengths = list(map(len, messages))
        if max(lengths) > least and any(len(one) > least and _depth(bytes(one)) > levels for one in messages):
            raise _too_deep()
        if is_array and sum(lengths) + len(messages) + 1 == len(body):  # brackets and commas, and no space
            return b"".join((memoryview(body)[1:-1], b","))
    return b",".join([*messages, b""])


def wrap(stored: bytes) -> bytes:
    """Turn stored messages into the JSON array that readers get."""
    return b"".join((b"[", memoryview(stored)[:-1], b"]"))  # one copy, and it may be a large one


def message_ends(stored: bytes) -> list[int]:
    """Find where each stored message ends, its comma included, counted from the first byte."""
    return list(accumulate(len(message) + 1 for message in _messages(wrap(stored)))) if stored else []


def split(body: bytes) -> list[bytes]:
    """Cut a body into the bytes of its messages: the items of an array, or the one value that it is."""
    return [bytes(message) for message in _messages(body)]


def _messages(body: bytes) -> list[_Message]:
    try:
        return _parse(body)
    except msgspec.DecodeError:
        # JSON allows an escaped surrogate without its partner, and JavaScript writes them; msgspec
        # does not read them. Validate with a stand-in of the same length, keep the original bytes.
        stand_in = _SURROGATE.sub(lambda match: match[1] or rb"\ufffd", body)
        if stand_in == body:
            raise
    messages: list[_Message] = []
    start = 0
    for message in _parse(stand_in):
        start = stand_in.index(message, start)
        messages.append(body[start : start + len(message)])
        start += len(message)
    return messages


def _is_array(body: bytes) -> bool:
    return body.lstrip(_SPACE)[:1] == b"["


def _parse(body: bytes) -> list[_Message]:
    return list(_array.decode(body)) if _is_array(body) else [_value.decode(body)]


def _depth(message: bytes) -> int:
    if message.count(b"[") + message.count(b"{") < MAX_DEPTH:
        return 0  # too few brackets to matter
    depth = deepest = 0
    for match in _NESTING.finditer(message):
        if match[0] in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif match[0] in b"]}":
            depth -= 1
    return deepest


def _too_deep() -> MalformedError:
    return MalformedError("JSON_TOO_DEEP", f"The body nests more than {MAX_DEPTH} levels of JSON.")
