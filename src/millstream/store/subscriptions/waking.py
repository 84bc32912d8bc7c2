"""Waking: what an append, a new stream and the end of one do to subscriptions, and what time does.

A subscription is woken in the same change as the append that gives it something to do. The order in the log:

        cursor of a stream that is new to it      at the tail before the append
        its wake, not delivered                   the generation rises
        the append
        an event in its wake stream, its wake delivered         (pull-wake; webhooks are delivered afterwards)

So whatever of this survives a crash, a subscription that has something pending has a wake, and a wake that
is not delivered is delivered again. Nothing need be looked for at a start. A wake whose append is lost has
nothing pending, and is dropped.

PROTOCOL.md 6.2, 7; rules S1, S4.
"""

import secrets
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from millstream.protocol.subscriptions import wakes
from millstream.protocol.subscriptions.answers import wake_event
from millstream.protocol.subscriptions.states import Subscription
from millstream.store.pending import when
from millstream.store.subscriptions.entries import Entry
from millstream.store.subscriptions.roster import Roster
from millstream.store.subscriptions.rows import Rows

_TOGETHER: Final = 16  # events for wake streams that are written at once; the rest in further turns
_DUE_TOGETHER: Final = 200  # subscriptions that one turn handles because their time has come
_SET_BACK_MS: Final = 1_000  # a clock that jumps back by less is not worth looking at all subscriptions


def new_wake_id() -> str:
    """Make an id that nobody can guess."""
    return f"w_{secrets.token_urlsafe(16)}"


def chance() -> float:
    """Give a number from 0 to 1."""
    return secrets.randbelow(2**32) / 2**32


class Waking:
    """Wakes subscriptions."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.on_due: Callable[[str], None] = lambda _key: None
        """Called with a subscription whose webhook is to be delivered now; its wake is durable."""
        self.new_id = new_wake_id
        self.chance = chance
        self.events = 0
        """How many events were written to wake streams."""
        self.event_failures = 0
        self._woken: deque[str] = deque()
        self._is_announcing = False
        self._now_ms = 0

    # -- What happens to streams -----------------------------------------------------------------

    def before_append(self, name: str, tail: int, now_ms: int) -> bool:
        """Take in that a stream is about to get more; tells whether `after_append` must be called."""
        known = self._roster.watching.pending.get(name)
        if known is None:
            return self.note_append(name, tail, None, now_ms)
        for pending in known:
            if name not in pending:
                return self.note_append(name, tail, None, now_ms)
        return False  # mostly: nobody watches, or all who do know that something is pending

    def note_append(self, name: str, tail: int, end: int | None, now_ms: int) -> bool:
        """Take in that a stream has got more, up to an end that some may have processed already."""
        roster = self._roster
        rows: Rows = {}
        for entry in roster.watching.of(name):
            link = entry.members.links.get(name)
            if end is not None and link is not None and link.acked >= end:
                continue
            entry.members.note_append(name, tail, rows)
            if entry.state.wake is None:
                roster.note(entry, wakes.issue(entry.state, self.new_id(), name, now_ms), rows)
                self._woken.append(entry.state.key)
        if rows:
            roster.host.keep(rows)
        return bool(self._woken)

    def before_create(self, name: str, base: int, *, has_data: bool, now_ms: int) -> bool:
        """Take in that a stream is about to be created, with content behind a base or without."""
        rows: Rows = {}
        for entry in self._roster.watching.of(name):
            entry.members.restart(name, base, rows)
        if rows:
            self._roster.host.keep(rows)
        return has_data and self.before_append(name, base, now_ms)

    def after_append(self, now_ms: int) -> None:
        """Deliver what was woken: at once where that is an event, or as soon as the append is durable."""
        if self._is_announcing:
            return  # this append is such an event, and whoever writes it goes on
        self._is_announcing = True
        try:
            for _ in range(min(len(self._woken), _TOGETHER)):
                self.deliver(self._woken.popleft(), now_ms)
        finally:
            self._is_announcing = False
        if self._woken:
            self._roster.host.later(partial(self.after_append, now_ms))

    def after_ending(self, name: str) -> None:
        """Take in that a stream has ended."""
        rows: Rows = {}
        for entry in self._roster.watching.of(name):
            entry.members.note_end(name, rows)
        if rows:
            self._roster.host.keep(rows)

    # -- Delivering ------------------------------------------------------------------------------

    def wake_if_pending(self, entry: Entry, state: Subscription, rows: Rows, now_ms: int) -> bool:
        """Leave a subscription whose wake has ended idle, or wake it again; `deliver_woken` must follow."""
        if not self._roster.is_pending(entry):
            self._roster.put(entry, wakes.idle(state), rows)
            return False
        stream = next(iter(entry.members.pending))
        self._roster.put(entry, wakes.issue(state, self.new_id(), stream, now_ms), rows)
        self._woken.append(state.key)
        return True

    def deliver_woken(self, now_ms: int) -> None:
        """Deliver what `wake_if_pending` has woken."""
        if self._woken:
            self.after_append(now_ms)

    def deliver(self, key: str, now_ms: int) -> None:
        """Deliver a wake, unless it waits for its time."""
        entry = self._roster.entries.get(key)
        if entry is None or entry.state.wake is None or entry.state.wake.is_delivered:
            return
        if (entry.state.next_attempt_ms or 0) > now_ms:
            return  # it waits for its time
        if not entry.state.is_webhook:
            self._announce(entry, now_ms)
            return
        when(self._roster.host.confirm(None), lambda refusal: self.on_due(key) if refusal is None else None)

    def _announce(self, entry: Entry, now_ms: int) -> None:
        """Write the event of a wake."""
        state = entry.state
        wake, wake_stream = state.wake, state.configuration.wake_stream
        assert wake is not None
        assert wake_stream is not None
        written = self._roster.host.append_event(wake_stream, wake_event(state, now_ms), now_ms)
        if isinstance(written, str):
            self._note_failure(state.key, wake.id, now_ms, written)
            return
        self.events += 1
        self._roster.put(entry, wakes.succeed(entry.state, now_ms), {})
        when(written, partial(self._note_failure, state.key, wake.id, now_ms))

    def _note_failure(self, key: str, wake_id: str, now_ms: int, error: str | None) -> None:
        """Try again later to write an event."""
        entry = self._roster.entries.get(key)
        is_current = entry is not None and entry.state.wake is not None and entry.state.wake.id == wake_id
        if error is None or entry is None or not is_current or self._roster.host.refusal is not None:
            return
        self.event_failures += 1
        self._roster.put(entry, wakes.fail(entry.state, error, now_ms, self.chance()), {})

    # -- Time ------------------------------------------------------------------------------------

    def is_set_back(self, now_ms: int) -> bool:
        """Tell whether the clock was set back since the last tick, so that leases would last too long."""
        return now_ms < self._now_ms - _SET_BACK_MS

    def tick(self, now_ms: int) -> bool:
        """Do what is due by time, some of it; tells whether there is more."""
        roster = self._roster
        if roster.host.refusal is not None:
            return False
        if self.is_set_back(now_ms):
            roster.rebase(now_ms)
        self._now_ms = now_ms
        for _ in range(_DUE_TOGETHER):
            key = roster.timers.pop_due(now_ms)
            if key is None:
                return False
            entry = roster.entries[key]
            wake = entry.state.wake
            if wake is None:
                continue
            if wake.is_delivered or wake.holder is not None:
                self.wake_if_pending(entry, wakes.lose(entry.state), {}, now_ms)
            else:
                self._woken.append(key)
            self.deliver_woken(now_ms)
        return True
