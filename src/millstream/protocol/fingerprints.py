"""Fingerprints: does a repeated commit hold what the first one held?

A producer's duplicate is answered with success and not compared: its parts are gone. A writer that computes
its content anew, such as a query whose checkpoint was set back, may come with more than it committed the
first time, and that would be lost in silence. So a commit may carry a fingerprint, a short text that its
writer makes of the content. The stream remembers it with the stamp, and a duplicate with another one is
refused.

A stream remembers the fingerprints of the `REMEMBERED` producers that gave one last, one of each: that of
its last commit. Where it remembers none, a duplicate is a duplicate.

Rules X3, X5.
"""

from typing import Final

import msgspec

from millstream.protocol.errors import MalformedError
from millstream.protocol.producers import Stamp

MAX_CHARACTERS: Final = 64
REMEMBERED: Final = 16


class Fingerprint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a producer said about its last commit."""

    stamp: Stamp
    text: str


class FingerprintDiffers(msgspec.Struct, frozen=True, gc=False):
    """The commit was made before, with other content."""

    committed: str
    received: str
    tail: int


Fingerprints = tuple[Fingerprint, ...]


def check(text: str | None) -> str | None:
    """Check a fingerprint that a client sent."""
    if text is not None and not (0 < len(text) <= MAX_CHARACTERS and text.isprintable()):
        raise MalformedError(
            "INVALID_FINGERPRINT", f"A fingerprint is 1 to {MAX_CHARACTERS} printable characters."
        )
    return text


def refuse(known: Fingerprints, stamp: Stamp, received: str | None, tail: int) -> FingerprintDiffers | None:
    """Refuse a duplicate whose fingerprint is not that of the first commit."""
    if received is None:
        return None
    for one in known:
        if one.stamp == stamp and one.text != received:
            return FingerprintDiffers(one.text, received, tail)
    return None


def remember(known: Fingerprints, stamp: Stamp, text: str) -> Fingerprints:
    """Add a fingerprint, instead of an older one of the same producer."""
    others = tuple(one for one in known if one.stamp.id != stamp.id)
    return (*others[1 - REMEMBERED :], Fingerprint(stamp, text))
