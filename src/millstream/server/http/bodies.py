"""Limits of request bodies: how many bytes all connections may hold together, and how slowly they may arrive.

Counted are bodies that arrive, queue behind other requests, or are being checked. A large body claims room
for all of it when its head is there. While there is room it is read; otherwise it waits for its turn, and its
socket is not read:

                     room for all of it                       whole
        claimed --------------------------> has its turn --------------> checked and answered
           |                                  ^       |
           | none                    room for |       | it is slow, and others wait
           v                        all of it |       v
        waits, in order of arrival -----------+-----waits behind all others

So those that have begun end, and only slow ones lose their turn. A body is slow when less than a certain
amount has arrived in each of several checks; nobody is checked while nobody waits. What a slow one has sent
is given up (503) when its room is needed.

A client that stalls on purpose would hold up the others for the time of these checks. So bodies that have
waited are tried first, several at a time, with room for a little of each: what their clients have sent
meanwhile arrives at once. Who has shown that has the next turn.

A body that has waited too long is refused by its holder (503), and so are newcomers while those that wait
hold too much. Small bodies never wait, and the number of connections limits them.

However many arrive at once, only a few are read in a turn of the event loop (`ReadTurns`): parsing what the
transport reads at a time takes some milliseconds when it is cut into very small chunks.

A body has a minimum rate, averaged over `body_timeout_s`: a client that sends a byte now and then must not
hold its body for ever.

Rule H4.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from millstream.server.settings import Settings

_READS_PER_TURN: Final = 2
_CHECK_S: Final = 0.1
_LEAST_BYTES: Final = 26 * 1024
"""Less in a check is slow: 256 KiB/s."""
_SLOW_CHECKS: Final = 3
_SLOW_CHECKS_AFTER_WAIT: Final = 2
"""What a client has sent while its body waited is there at once."""
_TRIALS: Final = 16
_TRIAL_BYTES: Final = 256 * 1024
"""What a transport reads at a time."""
_WAITING_SHARE: Final = 4
"""Bodies that wait hold at most this part of the room."""


def due_bytes(received_bytes: int, settings: Settings) -> float:
    """Return how much of a body must have arrived after the next `body_timeout_s`; less of it gets 408."""
    return received_bytes + max(1.0, settings.min_body_bytes_per_s * settings.body_timeout_s)


class BodyHolder(Protocol):
    """A connection that a body arrives on."""

    def await_room(self, *, is_slow: bool) -> None:
        """Stop reading the body: it waits; `is_slow` when it had its turn, which gives it no more time."""
        ...

    def resume_body(self, *, is_slow: bool) -> None:
        """Read the body, or read on: there is room for all of it."""
        ...

    def refuse_body(self) -> None:
        """Give up the body, and report that it is gone; the connection may end before this returns."""
        ...


class _Claim(msgspec.Struct, gc=False):
    """A large body that is arriving."""

    size: int
    received: int
    limit: int = 0  # how much of it there is room for
    tried_at: int = 0  # received when its trial began
    checked: int = 0  # received at the last check
    slow_checks: int = 0
    is_tried: bool = False  # it is not slow
    is_slow: bool = False  # it has lost its turn

    @property
    def is_on_trial(self) -> bool:
        return self.limit < self.size

    @property
    def missing(self) -> int:
        """How much of the room that it has is free."""
        return max(0, self.limit - self.received)


class Bodies:
    """The bodies of all connections of a server."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self._missing_bytes = 0  # what may still arrive of the bodies that have their turn
        self._trials = 0  # how many of them are on trial
        self._arriving: dict[BodyHolder, _Claim] = {}  # those that have their turn
        self._waiting: dict[BodyHolder, _Claim] = {}  # in order
        self._slow: dict[BodyHolder, _Claim] = {}  # those that wait behind them
        self._waiting_bytes = 0  # held by those that wait
        self._check: asyncio.TimerHandle | None = None
        self._check_s = 0.0

    def report(self, added_bytes: int) -> None:
        """Count what a connection holds more, or less; unless it is more, others have their turn."""
        self.held_bytes += added_bytes
        if added_bytes <= 0:
            self._admit()

    def claim(self, holder: BodyHolder, received: int, size: int) -> bool:
        """Claim room for a large body, or report how much of it has arrived; tell whether it may be read.

        If not, it is resumed or refused later, or was refused already.
        """
        claim = self._arriving.get(holder)
        if claim is not None:
            self._missing_bytes -= claim.missing
            claim.received = received
            self._missing_bytes += claim.missing
            if received > self.max_bytes:
                holder.refuse_body()
            elif claim.is_on_trial and received - claim.tried_at >= _LEAST_BYTES:
                self._end_trial(holder, claim)
            return holder in self._arriving
        claim = self._waiting.get(holder) or self._slow.get(holder)
        if claim is not None:  # it had arrived when reading was stopped
            self._waiting_bytes += received - claim.received
            claim.received = received
            return False
        return self._begin(holder, received, size)

    def _begin(self, holder: BodyHolder, received: int, size: int) -> bool:
        claim = _Claim(min(size, self.max_bytes), received)
        if not self._waiting and self._has_room(claim, claim.size):  # slow ones wait behind it
            self._start(holder, claim, claim.size)
            return True
        most_bytes = self.max_bytes // _WAITING_SHARE - received
        while self._waiting_bytes > most_bytes and self._slow:
            self._refuse_waiting()
        if self._waiting_bytes > most_bytes or received > self.max_bytes:
            holder.refuse_body()
            return False
        self._wait(self._waiting, holder, claim)
        self._admit()
        return holder in self._arriving

    def forget(self, holder: BodyHolder) -> None:
        """Drop the claim of a body that is whole, or gone; `report` follows, and gives others its room."""
        claim = self._arriving.get(holder)
        if claim is not None:
            self._stop(holder, claim)
        else:
            claim = self._waiting.pop(holder, None) or self._slow.pop(holder, None)
            if claim is not None:
                self._waiting_bytes -= claim.received

    # -- Turns -------------------------------------------------------------------------------------

    def _has_room(self, claim: _Claim, limit: int) -> bool:
        return self.held_bytes + self._missing_bytes + limit - claim.received <= self.max_bytes

    def _start(self, holder: BodyHolder, claim: _Claim, limit: int) -> None:
        claim.limit = limit
        claim.tried_at = claim.checked = claim.received
        claim.slow_checks = 0
        self._arriving[holder] = claim
        self._missing_bytes += claim.missing
        self._trials += claim.is_on_trial

    def _stop(self, holder: BodyHolder, claim: _Claim) -> None:
        del self._arriving[holder]
        self._missing_bytes -= claim.missing
        self._trials -= claim.is_on_trial

    def _end_trial(self, holder: BodyHolder, claim: _Claim) -> None:
        """Let a body that is not slow be read to its end, or be the next."""
        self._stop(holder, claim)
        claim.is_tried = True
        if self._has_room(claim, claim.size):
            self._start(holder, claim, claim.size)
        else:
            self._wait(self._waiting, holder, claim)
            self._waiting = {holder: claim, **self._waiting}

    def _wait(self, queue: dict[BodyHolder, _Claim], holder: BodyHolder, claim: _Claim) -> None:
        queue[holder] = claim
        self._waiting_bytes += claim.received
        if self._check is None:
            self._begin_check()
            for other in self._arriving.values():
                other.checked, other.slow_checks = other.received, 0
        holder.await_room(is_slow=claim.is_slow)

    def _admit(self) -> None:
        """Give the next ones their turn, as far as there is room for them."""
        while queue := self._waiting or self._slow:
            holder, claim = next(iter(queue.items()))
            is_free = claim.is_tried or self._trials < _TRIALS
            limit = claim.size if claim.is_tried else min(claim.size, claim.received + _TRIAL_BYTES)
            if is_free and self._has_room(claim, limit):
                self._resume(queue, holder, claim, limit)
            elif self._arriving or len(self._waiting) + len(self._slow) == 1:
                return  # there will be room when those have ended, or are answered
            else:  # those that wait hold it
                self._refuse_waiting()

    def _resume(self, queue: dict[BodyHolder, _Claim], holder: BodyHolder, claim: _Claim, limit: int) -> None:
        del queue[holder]
        self._waiting_bytes -= claim.received
        self._start(holder, claim, limit)
        claim.slow_checks = _SLOW_CHECKS - _SLOW_CHECKS_AFTER_WAIT
        holder.resume_body(is_slow=claim.is_slow)

    def _refuse_waiting(self) -> None:
        """Refuse one that waits: the slow one that holds most, or else the last."""
        if self._slow:
            victim = max(self._slow, key=lambda holder: self._slow[holder].received)
        else:
            victim = next(reversed(self._waiting))
        self.forget(victim)
        victim.refuse_body()

    # -- Who is slow -------------------------------------------------------------------------------

    def _begin_check(self) -> None:
        loop = asyncio.get_running_loop()
        self._check_s = loop.time()
        self._check = loop.call_later(_CHECK_S, self._check_progress)

    def _check_progress(self) -> None:
        self._check = None
        if not self._waiting and not self._slow:
            return
        is_late = asyncio.get_running_loop().time() - self._check_s > 2 * _CHECK_S
        for claim in self._arriving.values():
            is_slow = claim.received - claim.checked < _LEAST_BYTES
            claim.checked = claim.received
            if not is_late:  # otherwise the event loop was, and nothing could be read
                claim.slow_checks = claim.slow_checks + 1 if is_slow else 0
        self._begin_check()
        for holder, claim in list(self._arriving.items()):
            if claim.slow_checks >= _SLOW_CHECKS:
                self._end_turn(holder, claim)
        self._admit()

    def _end_turn(self, holder: BodyHolder, claim: _Claim) -> None:
        self._stop(holder, claim)
        claim.is_slow, claim.is_tried = True, False
        self._wait(self._slow, holder, claim)


class ReadTurns:
    """Connections with large bodies that wait to be read on."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, resume: Callable[[], None]) -> None:
        """Let a connection read on, after those that were added before it."""
        self._waiting.append(resume)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._resume_some)

    def _resume_some(self) -> None:
        resumed = [self._waiting.popleft() for _ in range(min(_READS_PER_TURN, len(self._waiting)))]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._resume_some)
        for resume in resumed:
            resume()
