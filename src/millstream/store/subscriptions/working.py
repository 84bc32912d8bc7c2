"""Working: claims, acknowledgements and releases of workers, and the attempts to deliver webhooks.

Every decision is made on the accepted state, recorded, and answered once it is durable. So a claim and its
token, and a cursor that was acknowledged, survive every crash that comes after the answer.

An attempt to deliver a webhook has two records: one before anything is sent, because a generation must not be
used twice, and one with what came of it. A crash between the two leaves a wake that is not delivered, and the
next start delivers it again.

PROTOCOL.md 7; rules S1, S4.
"""

import msgspec

from millstream.protocol.streams import Unstored
from millstream.protocol.subscriptions import wakes
from millstream.protocol.subscriptions.answers import Shown, webhook_body
from millstream.protocol.subscriptions.configurations import PULL_WAKE, WEBHOOK
from millstream.protocol.subscriptions.problems import Unknown
from millstream.protocol.subscriptions.requests import SettleRequest
from millstream.protocol.subscriptions.tokens import Claim, sign_claim
from millstream.protocol.subscriptions.wakes import (
    AlreadyClaimed,
    BadAck,
    Fenced,
    NothingPending,
    WrongType,
)
from millstream.store.pending import Eventually
from millstream.store.subscriptions.entries import Entry
from millstream.store.subscriptions.roster import Roster
from millstream.store.subscriptions.rows import Rows
from millstream.store.subscriptions.waking import Waking
from millstream.store.subscriptions.watching import is_matched


class Claimed(msgspec.Struct, frozen=True):
    """A worker has the lease, and this token for it."""

    shown: Shown
    token: str


class Settled(msgspec.Struct, frozen=True):
    """An acknowledgement or a release is done; perhaps there is more to do already."""

    next_wake: bool


class Attempt(msgspec.Struct, frozen=True):
    """A webhook to send: what, where to, and what it says is pending."""

    key: str
    wake_id: str
    url: str
    body: bytes
    tails: dict[str, int]
    lease_ms: int


Claiming = Claimed | Unknown | WrongType | AlreadyClaimed | NothingPending | Unstored
Settling = Settled | Unknown | WrongType | Fenced | BadAck | Unstored


class Working:
    """What workers do."""

    def __init__(self, roster: Roster, waking: Waking) -> None:
        self._roster = roster
        self._waking = waking
        self._host = roster.host

    def claim(self, key: str, worker: str, now_ms: int) -> Eventually[Claiming]:
        """Give a worker the lease, or say what is in the way."""
        entry = self._roster.entries.get(key)
        if entry is None:
            return self._host.confirm(Unknown())
        if self._host.refusal is not None:
            return self._host.refusal
        is_pending = self._roster.is_pending(entry)
        refusal = wakes.refuse_claim(entry.state, is_pending=is_pending, now_ms=now_ms)
        if refusal is not None:
            if isinstance(refusal, NothingPending) and entry.state.wake is not None:
                self._roster.put(entry, wakes.idle(entry.state), {})  # what it was woken for is gone
            return self._host.confirm(refusal)
        stream = next(iter(entry.members.pending))
        state = wakes.claim(entry.state, worker, self._waking.new_id(), stream, now_ms)
        self._roster.put(entry, state, {})
        return self._host.confirm(Claimed(self._roster.show(entry), self._token(entry)))

    def settle(
        self, key: str, action: str, claim: Claim, request: SettleRequest, now_ms: int
    ) -> Eventually[Settling]:
        """Acknowledge, extend the lease, or give it back: `ack`, `callback` or `release`."""
        entry = self._roster.entries.get(key)
        if entry is None:
            return self._host.confirm(Unknown())
        if entry.state.is_webhook != (action == "callback"):
            return WrongType(PULL_WAKE if entry.state.is_webhook else WEBHOOK)
        fenced = wakes.refuse_settling(entry.state, claim, request, now_ms)
        if fenced is not None:
            return self._host.confirm(fenced)
        if self._host.refusal is not None:
            return self._host.refusal
        state, rows = entry.state, Rows()
        if action != "release":
            refusal = self._apply_acks(entry, request, rows)
            if refusal is not None:
                return self._host.confirm(refusal)
            state = wakes.extend(state, now_ms)
        if action != "release" and not request.is_done:
            self._roster.put(entry, state, rows)
            return self._host.confirm(Settled(next_wake=False))
        state = wakes.lose(state) if action == "release" else wakes.end(state)
        next_wake = self._waking.wake_if_pending(entry, state, rows, now_ms)
        self._waking.deliver_woken(now_ms)
        return self._host.confirm(Settled(next_wake))

    def _apply_acks(self, entry: Entry, request: SettleRequest, rows: Rows) -> BadAck | None:
        """Move cursors as a request says, all of them or none."""
        members = entry.members
        members.classify(self._host.tails)
        tails = self._host.tails([ack.stream for ack in request.acks])
        moved = wakes.judge_acks(
            request.acks, members.links, tails.get, lambda name: is_matched(entry.state, name)
        )
        if isinstance(moved, BadAck):
            return moved
        members.move(moved, tails, rows)
        return None

    def _token(self, entry: Entry) -> str:
        state, keys = entry.state, self._roster.keys
        assert state.wake is not None
        assert keys is not None  # they are made with the first subscription
        return sign_claim(Claim(state.key, state.generation, state.wake.id), keys.token_key)

    # -- Webhooks --------------------------------------------------------------------------------

    def begin_attempt(self, key: str, now_ms: int) -> Eventually[Attempt | Unstored | None]:
        """Begin to deliver a webhook that is due; None when there is nothing to deliver."""
        entry = self._roster.entries.get(key)
        if entry is None or entry.state.wake is None or entry.state.wake.is_delivered:
            return None
        if entry.attempted == entry.state.wake.id:
            return None
        self._roster.set_timer(entry)  # it comes again, if it is not attempted now
        if (entry.state.next_attempt_ms or 0) > now_ms:
            return None
        if self._host.refusal is not None:
            return self._host.refusal
        if not self._roster.is_pending(entry):
            self._roster.put(entry, wakes.idle(entry.state), {})  # what it was woken for is gone
            return None
        state = wakes.begin_attempt(entry.state, self._waking.new_id(), now_ms)
        assert state.wake is not None
        entry.attempted = state.wake.id
        self._roster.put(entry, state, {})
        shown, url = self._roster.show(entry), state.configuration.webhook_url
        assert url is not None
        tails = {one.name: one.tail for one in shown.streams if one.tail is not None}
        body = webhook_body(shown, self._token(entry))
        attempt = Attempt(key, state.wake.id, url, body, tails, state.configuration.lease_ttl_ms)
        return self._host.confirm(attempt)

    def succeed(self, attempt: Attempt, now_ms: int, *, is_done: bool) -> Eventually[object]:
        """Take in that a receiver has a webhook, and perhaps that it has processed what it says."""
        entry = self._current(attempt)
        if entry is None or self._host.refusal is not None:
            return None
        state, rows = wakes.succeed(entry.state, now_ms), Rows()
        if not is_done:
            self._roster.put(entry, state, rows)
            return self._host.confirm(None)
        links = entry.members.links
        moved = {
            name: tail for name, tail in attempt.tails.items() if name in links and tail > links[name].acked
        }
        tails = self._host.tails(list(moved))
        entry.members.move({name: tail for name, tail in moved.items() if name in tails}, tails, rows)
        self._waking.wake_if_pending(entry, wakes.end(state), rows, now_ms)
        self._waking.deliver_woken(now_ms)
        return self._host.confirm(None)

    def fail(self, attempt: Attempt, error: str, now_ms: int) -> Eventually[object]:
        """Take in that a webhook could not be delivered, and when it is tried again."""
        entry = self._current(attempt)
        if entry is None or self._host.refusal is not None:
            return None
        assert entry.state.wake is not None
        if not entry.state.wake.is_delivered:  # its receiver may have called back meanwhile
            state = wakes.fail(entry.state, error, now_ms, self._waking.chance())
            self._roster.put(entry, state, {})
        return self._host.confirm(None)

    def _current(self, attempt: Attempt) -> Entry | None:
        """Find the subscription of an attempt, unless its wake is over."""
        entry = self._roster.entries.get(attempt.key)
        if entry is None:
            return None
        if entry.attempted == attempt.wake_id:
            entry.attempted = None
            self._roster.set_timer(entry)
        wake = entry.state.wake
        return entry if wake is not None and wake.id == attempt.wake_id else None

    def retry(self, key: str, now_ms: int) -> Eventually[Settled | Unknown | Unstored]:
        """Let an attempt that waits for its time be made now."""
        entry = self._roster.entries.get(key)
        if entry is None:
            return self._host.confirm(Unknown())
        if self._host.refusal is not None:
            return self._host.refusal
        state = wakes.hurry(entry.state, now_ms)
        if state is not entry.state:
            self._roster.put(entry, state, {})
            self._waking.deliver(key, now_ms)
        return self._host.confirm(Settled(next_wake=False))
