"""Epochs: how a producer's session begins, and which number it gets.

The server takes an append with the id, epoch and number of an earlier one for a retry of it, and drops
it. So a program that is started again must not begin with an epoch that was used before:

    NEW       a new epoch, above every earlier one: the time in microseconds. If the server knows a
              higher one (a clock was wrong), it refuses the first append and names it; the producer
              claims one above that, and nothing was stored meanwhile. This fences the older session.
    GIVEN     the caller's epoch. What the server has of it already is an error.
    REPEATED  the caller's epoch, for a run that sends again what an earlier one sent, in the same
              batches. What the server has of it already is skipped.
    RESUMED   the server's epoch, from the number that it expects (see `resuming`).

Microseconds, and a random step above a claimed epoch, so that programs which start together do not choose
the same one. If they do, the server calls the first append of one of them a duplicate, and that one claims
another epoch.
"""

import enum
from typing import Final, NamedTuple

from millstream.client.core.retry import Chance
from millstream.protocol.headers import MAX_SAFE_INTEGER

MAX_CLAIMS: Final = 16
"""How often a session that begins may be refused before it fails: a server must not keep it busy forever."""

_STEP: Final = 1000


class Opening(enum.Enum):
    """How a session begins."""

    NEW = "new"
    GIVEN = "given"
    REPEATED = "repeated"
    RESUMED = "resumed"


class Session(NamedTuple):
    """An epoch, and the number of its next append."""

    epoch: int
    next_seq: int


def choose_opening(epoch: int | None, *, resume: bool, repeat: bool) -> Opening:
    """Decide how a session begins by what the caller gave."""
    if repeat and resume:
        raise ValueError("repeat and resume exclude each other: one sends everything again, one goes on")
    if repeat and epoch is None:
        raise ValueError("repeat needs the epoch of the run that is repeated")
    if resume:
        return Opening.RESUMED
    if epoch is None:
        return Opening.NEW
    return Opening.REPEATED if repeat else Opening.GIVEN


def new_epoch(chance: Chance, above: int = -1) -> int:
    """Return an epoch that nobody has used, above a known one."""
    now_us = int(chance.wall_clock() * 1_000_000)
    return min(max(now_us, above + 1 + int(chance.random() * _STEP)), MAX_SAFE_INTEGER)
