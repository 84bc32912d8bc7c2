"""Content types: which ones match, and how the content of each is framed.

A stream's type is stored and returned exactly as it was given. Two types match when their media types
do, in any case and with any parameters; so `application/json; charset=utf-8` may append to
`application/json`.

JSON is what says so: `application/json`, and every type with the suffix `+json` (RFC 6839), such as
`application/cloudevents+json`. Nothing else in the project decides this.

PROTOCOL.md 5.8, 9; rules C1, C6, A2, A10, L4, X10.
"""

import enum
from functools import lru_cache
from typing import Final

DEFAULT_TYPE: Final = b"application/octet-stream"


_ACTIVE: Final = frozenset(
    [b"text/html", b"text/xml", b"application/xml", b"application/xhtml+xml", b"image/svg+xml"]
)


class Kind(enum.Enum):
    """How the content of a stream is framed and sent."""

    JSON = "json"
    TEXT = "text"
    BINARY = "binary"


JSON: Final = Kind.JSON
"""For code that runs for every read: on Python 3.11, looking up a member of an enum is a call."""


@lru_cache(maxsize=1024)
def media_type(content_type: bytes) -> bytes:
    """Give the part of a content type that is compared: no parameters, lower case."""
    return content_type.partition(b";")[0].strip().lower()


@lru_cache(maxsize=1024)
def shared_type(content_type: bytes) -> bytes:
    """Give the one object for all content types that are equal: a million streams have few different ones."""
    return content_type


@lru_cache(maxsize=1024)
def kind_of(content_type: bytes) -> Kind:
    """Tell how a new stream of this type is framed."""
    essence = media_type(content_type)
    if essence == b"application/json" or essence.endswith(b"+json"):
        return Kind.JSON
    if essence.startswith(b"text/"):
        return Kind.TEXT
    return Kind.BINARY


@lru_cache(maxsize=1024)
def is_json(content_type: bytes) -> bool:
    """Tell whether a stream of this type holds JSON."""
    return kind_of(content_type) is Kind.JSON


@lru_cache(maxsize=1024)
def may_be_bytes(content_type: bytes) -> bool:
    """Tell whether this is JSON now and was not always: a stream with `+json` may be older than that rule."""
    return is_json(content_type) and media_type(content_type) != b"application/json"


@lru_cache(maxsize=1024)
def is_active(content_type: bytes) -> bool:
    """Tell whether a browser would run scripts in such content."""
    return media_type(content_type) in _ACTIVE


def same_type(one: bytes, other: bytes) -> bool:
    """Tell whether two content types match."""
    return one == other or media_type(one) == media_type(other)
