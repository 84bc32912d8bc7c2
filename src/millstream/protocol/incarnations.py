"""Incarnations: which of the streams that a path had one after the other this one is.

A stream that is deleted and created again has the same path and may have the same offsets, so a reader that
knows only those goes on in the wrong one. The incarnation differs. It is made of the stream's number, which
its server gives to no other, and of the time of its creation: a data folder that was begun anew or restored
from a backup counts from where it was, and time goes on. Both are kept with the stream, so a restart, a
backup and its restoration change nothing.

It says nothing to clients but whether two are equal: neither how many streams there are nor which is older.

Rules X10, G3.
"""

from typing import Final

_64_BITS: Final = 2**64 - 1


def incarnation(stream_id: int, created_ms: int) -> bytes:
    """Give the incarnation of a stream, as clients see it; streams of the same moment never share one."""
    # The steps of SplitMix64, each of which can be undone: so for one time, no two numbers become the same.
    mixed = (stream_id * 0x9E3779B97F4A7C15 + created_ms * 0xD1342543DE82EF95) & _64_BITS
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _64_BITS
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _64_BITS
    return b"%016x" % (mixed ^ mixed >> 31)
