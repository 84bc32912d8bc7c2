"""A pull worker: what to do next, as plans that both shells perform.

        claim ──nothing to do──▶ idle: wait for an event in the wake stream ─┐
          ▲ │ claimed                                                        │
          │ ▼                                                                │
          │ read what is pending, hand it to the handler, acknowledge; while │
          │ that runs, heartbeats extend the lease                           │
          │ │                                                                │
          │ ├─ all done: acknowledge with done ──▶ claim again               │
          │ ├─ the handler failed: release, wait longer each time ───────────┤
          │ └─ the lease is lost: acknowledge nothing more ──────────────────┤
          └──────────────────────────────────────────────────────────────────┘

What a handler has processed is acknowledged before it gets more, so a worker that dies repeats at most what
one call was given. A message is processed at least once, and those of a stream in order.

PROTOCOL.md 7.2, 7.3; rules S1, S4.
"""

from collections.abc import Callable
from typing import Any, Final

from millstream.client.core import bodies, errors
from millstream.client.core.exchanges import Call, ContentChunk, Deliver, Plan, Sleep, Started, Terms
from millstream.client.core.models import Changes
from millstream.client.core.plans.reading import Reader
from millstream.client.core.subscriptions import requests
from millstream.client.core.subscriptions.errors import FencedError, SubscriptionNotFoundError
from millstream.client.core.subscriptions.models import Lease, StreamLink, Work
from millstream.client.core.subscriptions.requests import Root

MAX_IDLE_S: Final = 60.0
"""How long to wait for a wake before asking anyway: a wake stream may lose events by its retention."""

_FIRST_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 60.0
_AS_STORED: Final[Changes] = {"headers": {"Cache-Control": "no-cache"}}

Handle = Callable[[Work], Any]
Take = Callable[[ContentChunk], Plan[bool]]


class HandlerError(Exception):
    """A handler's own exception, on its way out of a plan."""

    def __init__(self, error: Exception, work: Work) -> None:
        super().__init__(str(error))
        self.error = error
        self.work = work


class Puller:
    """One worker of one subscription: its state, and its plans."""

    def __init__(self, root: Root, id: str, worker: str, handle: Handle) -> None:
        if not worker:
            raise ValueError("a worker's name must not be empty")
        self.id = id
        self.worker = worker
        self.is_stopping = False
        """Whether to finish what is being handled, and end."""
        self.must_wait = False
        """Whether there is nothing to claim for now: `idle` is the plan to perform."""
        self._root = root
        self._handle = handle
        self._failures = 0
        self._handled = 0
        self._chance = root.terms.chance
        self._wakes: Reader | None = None

    def begin(self) -> Plan[None]:
        """Find the wake stream and its end, before anything is claimed: no wake after that is missed."""
        found = yield from requests.read(self._root, self.id)
        if found.wake_stream is None:
            raise errors.BadRequestError(
                "This is not a pull-wake subscription", url=self._root.subscription(self.id).url
            )
        self._wake_endpoint = self._root.stream(found.wake_stream)
        self._wakes = Reader(self._wake_endpoint, self._root.terms, offset="now", live=False)
        yield from _each_chunk(self._wakes.plan(), _pass_over)

    def claim(self) -> Plan[Lease | None]:
        """Ask for the lease; None if there is nothing to do for this worker now."""
        sent_s = self._chance.clock()
        try:
            claim = yield from requests.claim(self._root, self.id, self.worker)
        except _TRANSIENT:
            self._pause_longer()
            return None
        if claim is None:
            self._failures = 0
            self.must_wait = True
            return None
        return Lease(claim, sent_s, self._chance.clock)

    # -- With a lease ----------------------------------------------------------------------------

    def attend(self, lease: Lease) -> Plan[None]:
        """Process what is pending; a handler's exception is raised as `HandlerError`, after the release."""
        acks: dict[str, str] = {}
        self._handled = 0
        try:
            for link in lease.claim.streams:
                if link.has_pending and not self.is_stopping:
                    yield from self._process(lease, link, acks)
            yield from self._finish(lease, acks)
        except FencedError:
            lease.fence()
            self.must_wait = True
        except HandlerError:
            self._pause_longer()
            yield from self.release(lease)
            raise
        except _TRANSIENT:
            self._pause_longer()
            yield from self.release(lease)

    def release(self, lease: Lease) -> Plan[None]:
        """Give the lease back; if that fails, it runs out by itself."""
        if lease.is_lost:
            return
        try:
            yield from requests.release(self._hasty(lease), self.id, lease.claim)
        except errors.MillstreamError:
            return

    def heartbeat(self, lease: Lease) -> Plan[None]:
        """Extend the lease. One that fails is followed by the next, until the lease has run out."""
        sent_s = self._chance.clock()
        try:
            yield from requests.acknowledge(self._hasty(lease), self.id, lease.claim, {}, done=False)
        except (FencedError, SubscriptionNotFoundError, errors.UnauthorizedError):
            lease.fence()
        except errors.MillstreamError:
            return
        else:
            lease.extend(sent_s)

    def _hasty(self, lease: Lease) -> Root:
        """Give the root for requests that are useless when they come late."""
        return Root(
            self._root.url, self._root.headers, Terms(None, max(0.5, lease.heartbeat_s), self._chance)
        )

    def _process(self, lease: Lease, link: StreamLink, acks: dict[str, str]) -> Plan[None]:
        """Hand what is new in a stream to the handler, up to where it ended at the claim."""
        endpoint = self._root.stream(link.path).changed(_AS_STORED)
        offset = link.acked_offset
        while True:
            reader = Reader(endpoint, self._root.terms, offset=offset, live=False)

            def take(chunk: ContentChunk, reader: Reader = reader) -> Plan[bool]:
                if chunk.parts:
                    content_type = reader.content_type or ""
                    work = Work(link.path, chunk.data, chunk.offset, content_type, lease)
                    yield from self._hand_over(work, acks)
                return not self.is_stopping and chunk.offset < link.tail_offset

            try:
                yield from _each_chunk(reader.plan(), take)
            except errors.StreamNotFoundError:
                return  # deleted meanwhile
            except errors.StreamGoneError as gone:
                # Retention has removed what was not processed in time; or the stream was deleted.
                if gone.earliest_offset is None or gone.earliest_offset == offset:
                    return
                offset = gone.earliest_offset
            else:
                return

    def _hand_over(self, work: Work, acks: dict[str, str]) -> Plan[None]:
        if acks:
            sent_s = self._chance.clock()
            yield from requests.acknowledge(self._root, self.id, work.lease.claim, acks, done=False)
            work.lease.extend(sent_s)
            acks.clear()
        self._check(work.lease)
        try:
            yield Call(self._handle, work)
        except Exception as error:
            raise HandlerError(error, work) from error
        acks[work.path] = work.offset
        self._handled += 1

    def _finish(self, lease: Lease, acks: dict[str, str]) -> Plan[None]:
        self._check(lease)
        accepted = yield from requests.acknowledge(self._root, self.id, lease.claim, acks, done=True)
        if not self._handled and not self.is_stopping:
            self._pause_longer()  # nothing could be read: do not ask for the same again at once
            return
        self._failures = 0
        self.must_wait = not accepted.next_wake

    def _check(self, lease: Lease) -> None:
        if lease.is_lost:
            raise FencedError("The lease has run out", url=self._root.subscription(self.id).url)

    # -- Without one -----------------------------------------------------------------------------

    def idle(self) -> Plan[None]:
        """Wait: after a failure for some time, otherwise until something is to be done."""
        if self._failures:
            doubled_s = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(self._failures - 1, 10))
            yield Sleep(doubled_s * (0.5 + self._chance.random() / 2))
        else:
            try:
                yield from self._wait_for_wake()
            except _TRANSIENT:
                self._pause_longer()
                return
        self.must_wait = False

    def _wait_for_wake(self) -> Plan[None]:
        """Follow the wake stream until it names this subscription; others may share it."""
        before = self._wakes
        assert before is not None, "begin comes first"
        until_s = self._chance.clock() + MAX_IDLE_S
        self._wakes = Reader(
            self._wake_endpoint,
            self._root.terms,
            offset=before.offset,
            live="long-poll",
            cursor=before.cursor,
        )

        def take(chunk: ContentChunk) -> Plan[bool]:
            yield from ()
            return not self._names_us(chunk)

        yield from _each_chunk(self._wakes.plan(), take, lambda: self._chance.clock() < until_s)
        if self._wakes.stream_closed:
            yield Sleep(_FIRST_PAUSE_S)  # no wake will ever come: ask now and then

    def _names_us(self, chunk: ContentChunk) -> bool:
        events = bodies.from_json(chunk.data, self._wake_endpoint.url) if chunk.parts else []
        return any(isinstance(event, dict) and event.get("subscription_id") == self.id for event in events)

    def _pause_longer(self) -> None:
        self._failures += 1
        self.must_wait = True


_TRANSIENT: Final = (errors.TransportError, errors.RateLimitedError, errors.UnexpectedStatusError)
"""What may be otherwise the next time. Everything else ends a worker."""


def _each_chunk(reading: Plan[None], take: Take, goes_on: Callable[[], bool] = lambda: True) -> Plan[None]:
    """Perform a read, and hand each chunk to `take`, until that returns False or the read ends."""
    try:
        effect = next(reading)
        while True:
            if isinstance(effect, Deliver):
                if not (yield from take(effect.chunk)):
                    return
                effect = reading.send(None)
            elif isinstance(effect, Started):
                effect = reading.send(None)
            elif not goes_on():
                return
            else:
                try:
                    outcome = yield effect
                except errors.TransportError as error:
                    effect = reading.throw(error)
                else:
                    effect = reading.send(outcome)
    except StopIteration:
        return
    finally:
        reading.close()


def _pass_over(chunk: ContentChunk) -> Plan[bool]:
    yield from ()
    return True
