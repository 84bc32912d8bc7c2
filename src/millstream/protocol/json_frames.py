r"""JSON streams: how a body is split into messages, stored, and returned as an array.

Each message is stored as its own bytes followed by a comma, so that any run of whole messages
turns into a JSON array by wrapping it, without parsing:

        POST    [{"a":1}, {"a": 2.50}]    one level of array is flattened
        stored  {"a":1},{"a": 2.50},      big integers, key order and spacing are unchanged
        GET     [{"a":1},{"a": 2.50}]     "[" + stored without its last comma + "]"

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
"""The bytes of a message; a `Raw` is a view into its body, not a copy."""

_SPACE = b" \t\n\r"
_NESTING = re.compile(rb'[\[\]{}]|"(?:[^"\\]|\\.)*+"', re.DOTALL)
_SURROGATE = re.compile(rb"(\\\\)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def frame(body: bytes) -> bytes:
    """Check a request body and give the bytes to store: its messages, each followed by a comma.

    An empty array gives no bytes; the caller decides whether that is allowed.
    """
    try:
        if not body.isascii():
            body.decode()  # msgspec does not check the text inside of `Raw` values
        messages = _messages(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError("INVALID_JSON", f"The body is not valid JSON: {error}.") from None
    except RecursionError:
        raise _too_deep() from None
    if not messages:
        return b""
    is_array = _is_array(body)
    levels = MAX_DEPTH - is_array  # the flattened array counts as a level
    least = 2 * levels  # a value that is nested deeper has at least two bytes for each level
    if len(body) > least:
        lengths = list(map(len, messages))
        if max(lengths) > least and any(len(one) > least and _depth(bytes(one)) > levels for one in messages):
            raise _too_deep()
        if is_array and sum(lengths) + len(messages) + 1 == len(body):  # no spaces around messages
            return b"".join((memoryview(body)[1:-1], b","))
    return b",".join([*messages, b""])


def wrap(stored: bytes) -> bytes:
    """Turn stored messages into the JSON array that readers get."""
    return b"".join((b"[", memoryview(stored)[:-1], b"]"))  # a single copy: it may be large


def message_ends(stored: bytes) -> list[int]:
    """Find the end of each stored message, its comma included, as an offset from the first byte."""
    return list(accumulate(len(message) + 1 for message in _messages(wrap(stored)))) if stored else []


def split(body: bytes) -> list[bytes]:
    """Split a body into the bytes of its messages: the items of an array, or one other value."""
    return [bytes(message) for message in _messages(body)]


def _messages(body: bytes) -> list[_Message]:
    try:
        return _parse(body)
    except msgspec.DecodeError:
        # JSON allows an escaped surrogate without its partner, and JavaScript writes them; msgspec
        # rejects them. Validate with a replacement of the same length, keep the original bytes.
        replaced = _SURROGATE.sub(lambda match: match[1] or rb"\ufffd", body)
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


def _depth(message: bytes) -> int:
    if message.count(b"[") + message.count(b"{") < MAX_DEPTH:
        return 0  # too few brackets to be nested too deep
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
