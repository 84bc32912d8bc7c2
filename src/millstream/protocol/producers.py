"""Idempotent producers: is this append new, repeated, or refused?

A producer stamps each append with (id, epoch, seq). The epoch rises when the producer restarts;
the seq counts appends within an epoch, from zero. `judge` compares a stamp with what was last
accepted. It is pure: the caller commits the accepted stamp in the same record as the data, so
that a crash can never keep one without the other.

PROTOCOL.md 5.2.1; rules R1 to R4.
"""

from collections.abc import Mapping

import msgspec

from millstream.protocol import headers
from millstream.protocol.errors import MalformedError


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """The producer headers of an append."""

    id: bytes
    epoch: int
    seq: int


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


Verdict = Accepted | Repeated | Fenced | BadStart | Gap

ACCEPTED = Accepted()


def judge(last: Stamp | None, stamp: Stamp) -> Verdict:
    """Compare a stamp with the last one accepted from the same producer, if any (rule R2)."""
    if last is None:
        return ACCEPTED if stamp.seq == 0 else Gap(0, stamp.seq)
    if stamp.epoch < last.epoch:
        return Fenced(last.epoch)
    if stamp.epoch > last.epoch:
        return ACCEPTED if stamp.seq == 0 else BadStart(stamp.seq)
    if stamp.seq <= last.seq:
        return Repeated(last.seq)
    if stamp.seq == last.seq + 1:
        return ACCEPTED
    return Gap(last.seq + 1, stamp.seq)


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
    return Stamp(
        id, headers.parse_integer(epoch, "Producer-Epoch"), headers.parse_integer(seq, "Producer-Seq")
    )
