"""Expiry: how long a stream lives, and what renews it.

A TTL is a sliding window, renewed by every read and write; an expiry time is fixed. A stream has at most
one of the two. HEAD renews nothing.

PROTOCOL.md 5.1, 5.5; rules C3, F4, G8.
"""

from typing import Final

import msgspec

from millstream.protocol.errors import MalformedError
from millstream.protocol.headers import MAX_SAFE_INTEGER, parse_canonical_integer
from millstream.protocol.times import parse_timestamp_ms

_MAX_TTL_DIGITS: Final = len(str(MAX_SAFE_INTEGER))


class Lifetime(msgspec.Struct, frozen=True, gc=False):
    """How long a stream lives: for ever, for a TTL after its last use, or until a fixed time."""

    ttl_s: int | None = None
    expires_at: bytes | None = None
    expires_ms: int | None = None

    def __bool__(self) -> bool:
        return self.ttl_s is not None or self.expires_ms is not None

    @property
    def is_sliding(self) -> bool:
        """Whether every GET and POST renews the lifetime: a TTL, but not a fixed expiry (rule G8)."""
        return self.ttl_s is not None

    def same(self, other: "Lifetime") -> bool:
        """Tell whether two lifetimes are the same; one instant has many spellings."""
        return self.ttl_s == other.ttl_s and self.expires_ms == other.expires_ms

    def deadline_ms(self, now_ms: int) -> int | None:
        """Give the deadline of a stream that was last used at `now_ms`."""
        if self.ttl_s is not None:
            return now_ms + self.ttl_s * 1000
        return self.expires_ms


FOREVER = Lifetime()


def parse_lifetime(ttl: bytes | None, expires_at: bytes | None) -> Lifetime:
    """Read `Stream-TTL` and `Stream-Expires-At`; both together are refused (rule C3)."""
    if ttl is not None:
        if expires_at is not None:
            raise MalformedError("CONFLICTING_EXPIRY", "Give Stream-TTL or Stream-Expires-At, not both.")
        return Lifetime(ttl_s=_parse_ttl(ttl))
    if expires_at is not None:
        expires_ms = parse_timestamp_ms(expires_at, "Stream-Expires-At")
        return Lifetime(expires_at=expires_at, expires_ms=expires_ms)
    return FOREVER


def _parse_ttl(text: bytes) -> int:
    """Read a TTL; one of more than 2^53-1 seconds, which no stream will reach, counts as so many."""
    if text.isdigit() and text[:1] != b"0" and len(text) >= _MAX_TTL_DIGITS:
        return min(int(text), MAX_SAFE_INTEGER) if len(text) == _MAX_TTL_DIGITS else MAX_SAFE_INTEGER
    return parse_canonical_integer(text, "Stream-TTL")
