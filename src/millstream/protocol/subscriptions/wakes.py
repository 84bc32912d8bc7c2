"""Wakes: who is woken, who may acknowledge, and when a wake ends by itself.

Every function takes a state and gives another one, or says why not. What is random or takes time is an
argument: ids of wakes, chances, the clock. The clock may jump. Forwards, leases end early, and the next
generation fences who had them. Backwards, no lease and no wait becomes longer than it may be (`rebase`).

Who finishes or loses a wake leaves the subscription idle; whoever calls then looks whether something is
pending, and issues the next wake in the same change.

PROTOCOL.md 7; rules S1, S4.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from millstream.protocol.subscriptions import retries
from millstream.protocol.subscriptions.requests import Ack, SettleRequest
from millstream.protocol.subscriptions.states import Link, Subscription, Wake
from millstream.protocol.subscriptions.tokens import Claim

_change = msgspec.structs.replace


# -- Refusals ------------------------------------------------------------------------------------


class Fenced(msgspec.Struct, frozen=True):
    """The wake of this request is over: another generation has begun, or its lease has ended."""


class AlreadyClaimed(msgspec.Struct, frozen=True):
    """Another worker has the lease."""

    holder: str
    generation: int


class NothingPending(msgspec.Struct, frozen=True):
    """There is nothing to claim."""


class WrongType(msgspec.Struct, frozen=True):
    """The request is for subscriptions of the other type."""

    needed: str


class BadAck(msgspec.Struct, frozen=True):
    """An acknowledgement that is refused, and with it the whole request."""

    stream: str
    reason: str


# -- Waking --------------------------------------------------------------------------------------


def issue(subscription: Subscription, wake_id: str, stream: str, now_ms: int) -> Subscription:
    """Wake an idle subscription. A schedule of retries goes on: another generation is no reason to hurry."""
    return _change(
        subscription,
        generation=subscription.generation + 1,
        wake=Wake(wake_id, stream),
        pending_ms=subscription.pending_ms or now_ms,
        next_attempt_ms=subscription.next_attempt_ms if subscription.is_failing else now_ms,
    )


def lose(subscription: Subscription) -> Subscription:
    """Take a wake from a worker that has not finished it: a lease that ended, or a release."""
    return _change(subscription, wake=None)


def end(subscription: Subscription) -> Subscription:
    """End a wake that is finished."""
    return _change(subscription, wake=None, pending_ms=None)


def idle(subscription: Subscription) -> Subscription:
    """Leave a subscription without a wake, because nothing is pending; nor is anything left to retry."""
    return _change(subscription, wake=None, pending_ms=None, attempts=0, next_attempt_ms=None)


def rebase(subscription: Subscription, now_ms: int) -> Subscription:
    """Shorten what a clock that was set back has made too long."""
    wake, most_ms = subscription.wake, now_ms + subscription.configuration.lease_ttl_ms
    if wake is not None and wake.lease_until_ms is not None and wake.lease_until_ms > most_ms:
        subscription = _change(subscription, wake=_change(wake, lease_until_ms=most_ms))
    latest_ms = now_ms + round(retries.MOST_MS * (1 + retries.JITTER))
    if subscription.next_attempt_ms is not None and subscription.next_attempt_ms > latest_ms:
        subscription = _change(subscription, next_attempt_ms=latest_ms)
    return subscription


# -- Delivering ----------------------------------------------------------------------------------


def begin_attempt(subscription: Subscription, wake_id: str, now_ms: int) -> Subscription:
    """Begin to deliver a wake by its webhook; one whose lease has ended is issued anew, which fences it."""
    wake = subscription.wake
    assert wake is not None  # only what is woken is delivered
    if wake.lease_until_ms is not None and now_ms >= wake.lease_until_ms:
        subscription = issue(subscription, wake_id, wake.stream, now_ms)
        wake = subscription.wake
        assert wake is not None
    lease_until_ms = now_ms + subscription.configuration.lease_ttl_ms
    return _change(subscription, wake=_change(wake, lease_until_ms=lease_until_ms))


def succeed(subscription: Subscription, now_ms: int) -> Subscription:
    """Note that a wake was delivered: its receiver has it, or its event is in the wake stream."""
    wake = subscription.wake
    assert wake is not None
    if subscription.is_webhook:
        lease_until_ms = now_ms + subscription.configuration.lease_ttl_ms
        wake = _change(wake, lease_until_ms=lease_until_ms)
    return _change(
        subscription,
        wake=_change(wake, is_delivered=True),
        attempts=0,
        next_attempt_ms=None,
        last_success_ms=now_ms,
    )


def fail(subscription: Subscription, error: str, now_ms: int, chance: float) -> Subscription:
    """Note that an attempt to deliver has failed, and when the next one is due."""
    attempts = subscription.attempts + 1
    return _change(
        subscription,
        attempts=attempts,
        next_attempt_ms=now_ms + retries.delay_ms(attempts, chance),
        last_error=error,
        last_error_ms=now_ms,
    )


def hurry(subscription: Subscription, now_ms: int) -> Subscription:
    """Let an attempt that waits for its time be made now."""
    wake = subscription.wake
    if wake is None or wake.is_delivered or subscription.next_attempt_ms is None:
        return subscription
    return _change(subscription, next_attempt_ms=now_ms)


# -- Claiming ------------------------------------------------------------------------------------


def refuse_claim(
    subscription: Subscription, *, is_pending: bool, now_ms: int
) -> AlreadyClaimed | NothingPending | WrongType | None:
    """Refuse a claim, or nothing."""
    if subscription.is_webhook:
        return WrongType("pull-wake")
    wake = subscription.wake
    if wake is not None and wake.holder is not None and subscription.is_leased(now_ms):
        return AlreadyClaimed(wake.holder, subscription.generation)
    return None if is_pending else NothingPending()


def claim(subscription: Subscription, worker: str, wake_id: str, stream: str, now_ms: int) -> Subscription:
    """Give a worker the lease, of the wake that is in flight or of a new one."""
    wake = subscription.wake
    if wake is None or wake.holder is not None:  # whoever held it has lost it
        subscription = issue(lose(subscription), wake_id, stream, now_ms)
        wake = subscription.wake
        assert wake is not None
    lease_until_ms = now_ms + subscription.configuration.lease_ttl_ms
    return _change(subscription, wake=_change(wake, holder=worker, lease_until_ms=lease_until_ms))


# -- Acknowledging -------------------------------------------------------------------------------


def refuse_settling(
    subscription: Subscription, claim: Claim, request: SettleRequest, now_ms: int
) -> Fenced | None:
    """Refuse a callback, an ack or a release unless it is of the wake that is current (7.3)."""
    wake = subscription.wake
    is_current = (
        wake is not None
        and wake.lease_until_ms is not None
        and now_ms < wake.lease_until_ms
        and claim.generation == request.generation == subscription.generation
        and claim.wake_id == request.wake_id == wake.id
    )
    return None if is_current else Fenced()


def judge_acks(
    acks: Sequence[Ack],
    links: Mapping[str, Link],
    tail_of: Callable[[str], int | None],
    is_member: Callable[[str], bool],
) -> dict[str, int] | BadAck:
    """Give the cursors that acknowledgements move, or what is wrong with one of them: all count, or none.

    A stream that the glob matches and that has no link is processed up to its tail (`Members`).
    """
    moved: dict[str, int] = {}
    for ack in acks:
        link, tail = links.get(ack.stream), tail_of(ack.stream)
        if link is None and (tail is None or not is_member(ack.stream)):
            return BadAck(ack.stream, "is not a stream of this subscription")
        acked = moved.get(ack.stream, link.acked if link is not None else tail or 0)
        if ack.offset < acked:
            return BadAck(ack.stream, "is processed further than this offset")
        if ack.offset > (tail if tail is not None else acked):
            return BadAck(ack.stream, "ends before this offset")
        if link is not None:
            moved[ack.stream] = ack.offset
    return moved


def extend(subscription: Subscription, now_ms: int) -> Subscription:
    """Let the lease begin anew, and note that the worker has the wake."""
    wake = subscription.wake
    assert wake is not None  # a request of it was not refused
    if subscription.is_webhook:
        return succeed(subscription, now_ms)
    lease_until_ms = now_ms + subscription.configuration.lease_ttl_ms
    return _change(subscription, wake=_change(wake, lease_until_ms=lease_until_ms))
