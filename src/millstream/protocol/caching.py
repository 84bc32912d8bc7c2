"""Caching: entity tags and cache directives of reads.

A range of a stream never changes, so it may be cached. Closing a stream changes the headers of its last
range, so the tag changes too: a 304 must never hide the end of a stream.

PROTOCOL.md 10; rules G2, G3, G6, X6 to X8, X10.
"""

from typing import Final

from millstream.protocol.offsets import NOW
from millstream.protocol.origins import Origin, Since

PUBLIC: Final = b"public, max-age=60, stale-while-revalidate=300"
PRIVATE: Final = b"private, max-age=60, stale-while-revalidate=300"
FOR_A_TOKEN: Final = b"private, no-store"
NO_STORE: Final = b"no-store"
EVENT_STREAM: Final = b"no-cache, no-store"
EVENT_STREAM_FOR_A_TOKEN: Final = b"private, no-cache, no-store"


def for_client(by_token: bool, with_credentials: bool) -> bytes:
    """Decide what caches may do with what this client reads (rule G6).

    A cache checks no token, so it may not store what needed one. `Authorization` that this server did not
    ask for may mean something to a proxy in front of it.
    """
    if by_token:
        return FOR_A_TOKEN
    return PRIVATE if with_credentials else PUBLIC


def for_read(offset: int, allowed: bytes, origin: Origin | None = None, *, is_empty: bool = False) -> bytes:
    """Decide what caches may do with a read: the one of `offset=now` changes at every append (rule G2).

    So does one of the last messages, and one of a time that is counted from the request changes by itself. A
    fixed time finds the same append for ever, once there is one at or after it (rules X7, X8).
    """
    if origin is not None:
        return allowed if isinstance(origin, Since) and not is_empty else NO_STORE
    return NO_STORE if offset == NOW else allowed


def entity_tag(incarnation: bytes, start: int, end: int, closed: bool) -> bytes:
    """Give the tag of the range [start, end) of a stream; one made anew shares none (rules G3, X10)."""
    return b'"%b:%d:%d%b"' % (incarnation, start, end, b":c" if closed else b"")


def tail_tag(incarnation: bytes, tail: int, *, closed: bool) -> bytes:
    """Give the tag of a stream's tail, which is that of a read which finds nothing new (rule X6)."""
    return entity_tag(incarnation, tail, tail, closed)


def encoded_tag(tag: bytes, coding: bytes) -> bytes:
    """Give the tag of a compressed form, whose bytes differ."""
    return b'%b;%b"' % (tag[:-1], coding)


def matches(if_none_match: bytes, tag: bytes) -> bool:
    """Tell whether a client already has this content, in any coding."""
    if if_none_match.strip() == b"*":
        return True
    return any(_plain(candidate) == tag for candidate in if_none_match.split(b","))


def _plain(candidate: bytes) -> bytes:
    text = candidate.strip().removeprefix(b"W/")
    content, semicolon, _coding = text.partition(b";")
    return content + b'"' if semicolon else text
