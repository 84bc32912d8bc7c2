"""Idempotent producers: is this append new, repeated, or refused?

A producer stamps each append with (id, epoch, seq). The epoch rises when the producer restarts;
the seq counts appends within an epoch, from zero. `judge` compares a stamp with what was last
accepted. It is pure: the caller commits the accepted stamp in the same record as the data, so
that a crash can never keep one without the other.

A stream remembers a limited number of producers (`Limits`), in the order in which they were last used.
When a new one needs room, those that were idle for long enough are forgotten, the longest idle first;
when none was, the new one is refused.

Forgetting is safe because of the floor: the highest epoch of all producers that the stream has
forgotten. A producer that is not known must begin with an epoch above it:

        known       compared with its last stamp
        not known   epoch <= floor: fenced, with the floor as the current epoch
                    epoch >  floor: new, it begins with seq 0

Every stamp that was accepted from a forgotten producer has an epoch at or below the floor, so a late
retry of it is refused and never stored again. A client that is fenced goes on with the next epoch, as it
does when a newer session has taken over.

PROTOCOL.md 5.2.1; rules R1 to R4, H4.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from millstream.protocol import headers
from millstream.protocol.errors import MalformedError

MAX_ID_BYTES: Final = 256
NO_FLOOR: Final = -1
"""The floor of a stream that has forgotten no producer."""

_FORGET_AT_ONCE = 16  # with one append; more than one only where the limit was lowered


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """The producer headers of an append."""

    id: bytes
    epoch: int
    seq: int


class ProducerState(msgspec.Struct, frozen=True, gc=False):
    """The last stamp accepted from a producer, and when."""

    epoch: int
    seq: int
    used_ms: int = 0


class Limits(msgspec.Struct, frozen=True, gc=False):
    """How many producers a stream remembers, and how long one stays known after its last append.

    They are loaded together, on the event loop, by the first stamped append; so there are not too many.
    """

    count: int = 5_000
    idle_ms: int = 7 * 24 * 3600 * 1000


DEFAULT_LIMITS = Limits()


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The append is the producer's next one."""


class Repeated(msgspec.Struct, frozen=True, gc=False):
    """The append was accepted before; `highest_seq` is the last one that was."""

    highest_seq: int


class Fenced(msgspec.Struct, frozen=True, gc=False):
    """A newer session of the producer has taken over."""

    current_epoch: int


class BadStart(msgspec.Struct, frozen=True, gc=False):
    """A new epoch did not begin at seq 0."""

    received: int


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Appends are missing between the last accepted one and this one."""

    expected: int
    received: int


class TooManyProducers(msgspec.Struct, frozen=True, gc=False):
    """The stream knows as many producers as it may, and none of them was idle for long enough."""

    limit: int


Verdict = Accepted | Repeated | Fenced | BadStart | Gap

ACCEPTED = Accepted()


def judge(last: ProducerState | None, stamp: Stamp, floor: int = NO_FLOOR) -> Verdict:
    """Compare a stamp with the last one accepted from the same producer, if any (rule R2)."""
    if last is None:
        if stamp.epoch <= floor:
            return Fenced(floor)
        return ACCEPTED if stamp.seq == 0 else Gap(0, stamp.seq)
    if stamp.epoch == last.epoch:
        if stamp.seq == last.seq + 1:
            return ACCEPTED
        return Repeated(last.seq) if stamp.seq <= last.seq else Gap(last.seq + 1, stamp.seq)
    if stamp.epoch < last.epoch:
        return Fenced(last.epoch)
    return ACCEPTED if stamp.seq == 0 else BadStart(stamp.seq)


def plan_room(
    known: Mapping[bytes, ProducerState], limits: Limits, now_ms: int
) -> tuple[bytes, ...] | TooManyProducers:
    """Decide which producers are forgotten for a new one; `known` is in the order of last use."""
    excess = len(known) + 1 - limits.count
    if excess <= 0:
        return ()
    idle_since_ms = now_ms - limits.idle_ms
    oldest = islice(known.items(), min(excess, _FORGET_AT_ONCE))
    idle = tuple(id for id, state in oldest if state.used_ms <= idle_since_ms)
    return idle or TooManyProducers(limits.count)


def parse_stamp(fields: Mapping[bytes, bytes]) -> Stamp | None:
    """Read the three producer headers: all of them or none (rule R1)."""
    id = fields.get(headers.PRODUCER_ID)
    epoch = fields.get(headers.PRODUCER_EPOCH)
    seq = fields.get(headers.PRODUCER_SEQ)
    if id is None and epoch is None and seq is None:
        return None
    if not id or epoch is None or seq is None:
        raise MalformedError(
            "INCOMPLETE_PRODUCER",
            "Producer-Id, Producer-Epoch and Producer-Seq come together, and Producer-Id is not empty.",
        )
    if len(id) > MAX_ID_BYTES:
        raise MalformedError("PRODUCER_ID_TOO_LONG", f"Producer-Id is at most {MAX_ID_BYTES} bytes long.")
    return Stamp(
        id, headers.parse_integer(epoch, "Producer-Epoch"), headers.parse_integer(seq, "Producer-Seq")
    )
