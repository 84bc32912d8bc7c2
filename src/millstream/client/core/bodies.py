"""Bodies: from the user's values to the bytes of a request, and back.

A JSON stream takes Python values, each one message; `bytes` are a message that is already JSON. Several
messages are sent as an array, which the server splits again, so a list that is one message is wrapped
once more. Other streams take `bytes`, or `str` as UTF-8.

PROTOCOL.md 9.1; rule A10.
"""

import codecs
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from millstream.client.core.errors import ParseError
from millstream.protocol.content import is_json as content_is_json

_RAW = msgspec.json.Decoder(msgspec.Raw)
_NULL: Final = b"null"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

Octets = bytes | bytearray | memoryview


def is_json(content_type: str | None) -> bool:
    """Return whether a stream of this type holds JSON messages."""
    return content_type is not None and content_is_json(content_type.encode("latin-1"))


def message(data: Any, *, as_json: bool) -> bytes:
    """Encode one message."""
    if not as_json:
        if isinstance(data, str):
            return data.encode()
        if isinstance(data, bytes):
            return data
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise TypeError(f"a stream that is not JSON takes bytes or str, not {type(data).__name__}")
    if isinstance(data, bytes | bytearray | memoryview):
        text = bytes(data)
        _check_json(text)
        return text
    return to_json(data)


def join(messages: Sequence[Octets], *, as_json: bool) -> bytes:
    """Join messages into one body."""
    first, last = messages[0], messages[-1]
    if not as_json:
        return first if len(messages) == 1 and isinstance(first, bytes) else b"".join(messages)
    if len(messages) == 1:
        return b"".join((b"[", first, b"]"))
    # The brackets are joined to the first and last message, so that everything is copied only once.
    return b",".join((b"".join((b"[", first)), *messages[1:-1], b"".join((last, b"]"))))


def content(data: Any, *, as_json: bool) -> bytes:
    """Encode the initial content of a stream; on a JSON stream, a list of messages or a single one."""
    if as_json and isinstance(data, list | tuple):
        return join([message(one, as_json=True) for one in data], as_json=True) if data else b""
    written = message(data, as_json=as_json)
    return join([written], as_json=as_json) if as_json else written


def to_json(data: Any) -> bytes:
    """Encode a value as JSON. NaN and infinities raise a ValueError; they never become null."""
    try:
        written = _encode(data)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can escape
        return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
    except msgspec.MsgspecError as error:
        raise TypeError(str(error)) from None
    if _NULL in written:  # from a None, or from a NaN?
        refuse_nan(data)
    return written


def refuse_nan(data: Any) -> None:
    """Raise for NaN and infinities, at any depth."""
    if isinstance(data, float) and (data != data or data in (float("inf"), float("-inf"))):
        raise ValueError(f"{data} is not JSON")
    if isinstance(data, dict):
        data = data.values()
    elif not isinstance(data, list | tuple | set | frozenset):
        return
    for value in data:
        refuse_nan(value)


def from_json(text: bytes, url: str) -> list[Any]:
    """Decode the messages of a response."""
    try:
        values = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            values = json.loads(text)  # slower, but accepts lone surrogates
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The stream's content is not JSON ({error})", url=url) from None
    except RecursionError:
        raise ParseError("The stream's content nests too deeply", url=url) from None
    return values if isinstance(values, list) else [values]


class TextDecoder:
    """Decodes bytes to text, across chunks that end inside a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Decode bytes; return the complete characters."""
        return self._decoder.decode(data, final)


def _check_json(text: bytes) -> None:
    try:
        text.decode()
        try:
            _RAW.decode(text)
        except msgspec.DecodeError:
            json.loads(text, parse_constant=_refuse_constant)  # slower, but accepts lone surrogates
    except json.JSONDecodeError as error:
        where = f"{error.msg} at character {error.pos + 1}"
        raise ValueError(f"bytes on a JSON stream are one message of JSON: {where}") from None
    except ValueError as error:
        raise ValueError(f"bytes on a JSON stream are one message of JSON: {error}") from None
    except RecursionError:
        raise ValueError("bytes on a JSON stream are one message of JSON: it nests too deeply") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def pack(messages: Iterable[bytes], max_bytes: int) -> Iterable[list[bytes]]:
    """Group messages into batches of at most `max_bytes`; a larger message is a batch of its own."""
    batch: list[bytes] = []
    size = 0
    for one in messages:
        if batch and size + len(one) + 1 > max_bytes:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one) + 1
    if batch:
        yield batch
