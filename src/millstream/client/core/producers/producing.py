"""Producing: appends that are stored exactly once and in order, however often they are sent.

Messages are collected into batches; a batch is one request with the producer's id, epoch and its own
sequence number. Several may be in flight at once, and arrive in any order:

    open --full, due or flushed---> sealed --slot free--> in flight --200, 204--> stored
                                      ^                       |
                                      |<-- its predecessor was stored -- parked <-- 409 gap
                                      `<-- renumbered in a new epoch -- fenced <-- 403 (see `epochs`)

Anything else is a failure: the producer stops, because nothing may be stored after a gap. Number 0 of an
epoch is sent alone: it opens the epoch, and nothing may overtake it.

A batch that is due stays open while no slot is free, so that messages which wait share a request.

A batch is doubtful once an attempt to send it had no clear outcome. Only then can a duplicate be its own.
A duplicate of a batch that is not doubtful is somebody else's append: the server dropped this one. And
only what is not doubtful may be renumbered: otherwise it could be stored twice.

`ProducerCore` decides, `pumping` sends. It has no clock and no lock.

PROTOCOL.md 5.2.1; rules R2, R3, R5.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from millstream.client.core import bodies, errors
from millstream.client.core.models import AppendResult, CloseResult, ProducerStamp
from millstream.client.core.producers.epochs import MAX_CLAIMS, Opening, Session, choose_opening, new_epoch
from millstream.client.core.retry import REAL, Chance
from millstream.protocol.headers import MAX_SAFE_INTEGER

MAX_BATCH_BYTES: Final = 1024 * 1024
BACKLOG_BATCHES: Final = 16
"""How many full batches may be waiting before `append` blocks."""


class Batch:
    """Messages that are stored together."""

    __slots__ = ("closes", "doubtful", "follows_stored", "messages", "seq", "size")

    def __init__(self, *, closes: bool = False) -> None:
        self.messages: list[bytes] = []
        self.size = 0
        self.seq = -1
        self.closes = closes
        self.follows_stored = False  # whether its predecessor was stored when it was sent
        self.doubtful = False  # whether the server may have it from an earlier attempt


class ProducerCore:
    """The state of a producer, and what to do next."""

    def __init__(
        self,
        producer_id: str,
        *,
        epoch: int | None = None,
        resume: bool = False,
        repeat: bool = False,
        auto_claim: bool = False,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        linger_s: float = 0.005,
        max_in_flight: int = 5,
        url: str | None = None,
        chance: Chance = REAL,
    ) -> None:
        _check(producer_id, epoch, max_batch_bytes, linger_s, max_in_flight)
        self.id = producer_id
        self.opening = choose_opening(epoch, resume=resume, repeat=repeat)
        self.given_epoch = epoch
        self.epoch = new_epoch(chance) if epoch is None else epoch
        self.next_seq = 0
        self.last_offset: str | None = None
        self.duplicates = 0
        self.failure: errors.MillstreamError | None = None
        self.close_result: CloseResult | None = None
        self.linger_s = linger_s
        self._auto_claim = auto_claim
        self._max_batch_bytes = max_batch_bytes
        self._max_in_flight = max_in_flight
        self._open: Batch | None = None
        self._open_since = 0.0
        self._sealed: deque[Batch] = deque()
        self._in_flight: dict[int, Batch] = {}
        self._parked: dict[int, Batch] = {}
        self._url = url
        self._chance = chance
        self._claim: int | None = None
        self._claims = 0
        self._epoch_open = False
        self._closing: Batch | None = None
        self._backlog_bytes = 0

    # -- State -----------------------------------------------------------------------------------

    @property
    def pending_count(self) -> int:
        """Count the messages that are not sent yet."""
        waiting = sum(len(batch.messages) for batch in (*self._sealed, *self._parked.values()))
        return waiting + (len(self._open.messages) if self._open is not None else 0)

    @property
    def in_flight_count(self) -> int:
        """Count the batches in flight."""
        return len(self._in_flight)

    @property
    def is_settled(self) -> bool:
        """Whether everything is stored, or the producer has failed."""
        if self.failure is not None:
            return not self._in_flight
        return self._open is None and not self._sealed and not self._in_flight and not self._parked

    @property
    def is_full(self) -> bool:
        """Whether the backlog is full."""
        return self._backlog_bytes > BACKLOG_BATCHES * self._max_batch_bytes

    @property
    def has_free_slot(self) -> bool:
        """Whether a batch that is sealed now would be sent now."""
        return not self._sealed and len(self._in_flight) < self._max_at_once

    @property
    def due_at(self) -> float | None:
        """When the open batch is due."""
        return self._open_since + self.linger_s if self._open is not None else None

    def closed(self) -> CloseResult:
        """Return the result of closing the stream."""
        assert self.close_result is not None
        return self.close_result

    # -- What the user does ------------------------------------------------------------------------

    def add(self, message: bytes, now: float) -> bool:
        """Add a message; true if there is something to do: a timer to set, a batch to send."""
        batch = self._open
        size = len(message) + 1
        news = False
        if batch is not None and batch.size + size > self._max_batch_bytes:
            self.seal()
            batch, news = None, True
        if batch is None:
            batch = self._open = Batch()
            self._open_since = now
            news = True
        batch.messages.append(message)
        batch.size += size
        self._backlog_bytes += size
        return news

    def seal(self) -> None:
        """End the open batch, so that it is sent as soon as possible."""
        if self._open is not None:
            self._sealed.append(self._open)
            self._open = None

    def begin_close(self, final: bytes | None) -> None:
        """Queue the closing append after everything else. If repeated, the first one is sent again."""
        self.seal()
        if self._closing is None:
            self._closing = Batch(closes=True)
            if final is not None:
                self._closing.messages.append(final)
            self._sealed.append(self._closing)
        elif self.failure is not None and self._closing not in self._sealed:
            self.failure = None
            self._sealed.append(self._closing)

    def restart(self) -> None:
        """Begin a new epoch, and drop what the failed one did not store."""
        self._open = None
        self._sealed.clear()
        self._parked.clear()
        self._backlog_bytes = 0
        failure = self.failure
        self._closing = self._claim = self.failure = None
        fenced_by = failure.current_epoch if isinstance(failure, errors.StaleEpochError) else 0
        known = max(self.epoch, fenced_by)
        self._claims = 0
        if self.given_epoch is None:
            self.opening = Opening.NEW
            self._enter(new_epoch(self._chance, known))
        else:
            self.opening = Opening.GIVEN
            self._enter(known + 1)

    def resume(self, session: Session | None) -> None:
        """Continue a session that the server knows; if there is none, begin a new one."""
        if session is None:
            self.opening = Opening.NEW
            return
        self.epoch, self.next_seq = session
        self._epoch_open = self.next_seq > 0

    # -- What is sent, and what comes back -----------------------------------------------------------

    def ready(self) -> Iterator[Batch]:
        """Number and yield the batches to send now."""
        while self._sealed and self.failure is None and self._claim is None:
            if len(self._in_flight) >= self._max_at_once:
                return
            batch = self._sealed[0]
            predecessor = (self.next_seq if batch.seq < 0 else batch.seq) - 1
            if self._parked and self._is_outstanding(predecessor):
                return  # it would be refused
            if batch.closes and self._in_flight:
                return  # a retried append must not find the stream closed
            self._sealed.popleft()
            if batch.seq < 0:
                batch.seq = self.next_seq
                self.next_seq += 1
            batch.follows_stored = not self._is_outstanding(batch.seq - 1)
            self._in_flight[batch.seq] = batch
            yield batch

    def stamp(self, batch: Batch) -> ProducerStamp:
        """Return the stamp that identifies a batch."""
        return ProducerStamp(self.id, self.epoch, batch.seq)

    def stored(self, batch: Batch, result: AppendResult) -> errors.MillstreamError | None:
        """Record that a batch is stored; return the failure if it is not, and this is the first."""
        if result.duplicate and not batch.doubtful and self.opening is not Opening.REPEATED:
            return self.refused(batch, self._not_ours(batch))
        del self._in_flight[batch.seq]
        self._backlog_bytes -= batch.size
        self._epoch_open = True
        self.duplicates += result.duplicate
        if self.last_offset is None or result.next_offset > self.last_offset:
            self.last_offset = result.next_offset
        if batch.closes:
            self.close_result = CloseResult(result.next_offset)
        follower = self._parked.pop(batch.seq + 1, None)
        if follower is not None:
            self._sealed.appendleft(follower)
        self._finish_claim()
        return None

    def refused(self, batch: Batch, error: errors.MillstreamError) -> errors.MillstreamError | None:
        """Record that a batch was refused; return the failure if this is the first."""
        del self._in_flight[batch.seq]
        claim = self._claim_after(batch, error)
        if claim is not None:
            self._claim = max(self._claim or 0, claim)
            self._parked[batch.seq] = batch
            self._finish_claim()
            return None
        if isinstance(error, errors.SequenceGapError) and not batch.follows_stored:
            if self._is_outstanding(batch.seq - 1) or self._claim is not None:
                self._parked[batch.seq] = batch
            else:
                self._sealed.appendleft(batch)
            self._finish_claim()
            return None
        is_first = self.failure is None
        self.failure = self.failure or error
        return error if is_first else None

    @property
    def _max_at_once(self) -> int:
        return self._max_in_flight if self._epoch_open else 1

    def _not_ours(self, batch: Batch) -> errors.DuplicateAppendError:
        return errors.DuplicateAppendError(
            f"The server has append {batch.seq} of epoch {self.epoch} of producer {self.id!r} from another "
            "run, and dropped this one. Leave out `epoch` to begin a new one, or set `repeat=True` if this "
            "run sends the same messages again",
            url=self._url,
            producer_id=self.id,
            epoch=self.epoch,
            seq=batch.seq,
        )

    def _claim_after(self, batch: Batch, error: errors.MillstreamError) -> int | None:
        """Return the epoch in which a refused batch may be sent again; None if it may not."""
        if batch.doubtful or not isinstance(error, errors.StaleEpochError | errors.DuplicateAppendError):
            return None
        begins = self.opening is Opening.NEW and not self._epoch_open and self._claims < MAX_CLAIMS
        if isinstance(error, errors.DuplicateAppendError):
            return new_epoch(self._chance, self.epoch) if begins else None
        if error.current_epoch < self.epoch or error.current_epoch >= MAX_SAFE_INTEGER:
            return None
        if begins:
            return new_epoch(self._chance, error.current_epoch)
        return error.current_epoch + 1 if self._auto_claim else None

    def _is_outstanding(self, seq: int) -> bool:
        if seq < 0:
            return False  # the first has no predecessor
        return (
            seq in self._in_flight or seq in self._parked or any(batch.seq == seq for batch in self._sealed)
        )

    def _finish_claim(self) -> None:
        """Renumber what is not stored, once nothing of the old epoch is in flight."""
        if self._claim is None or self._in_flight:
            return
        numbered = [batch for batch in self._sealed if batch.seq >= 0]
        unnumbered = [batch for batch in self._sealed if batch.seq < 0]
        old = sorted([*numbered, *self._parked.values()], key=lambda batch: batch.seq)
        self._parked.clear()
        self._sealed = deque([*old, *unnumbered])
        for batch in old:
            batch.seq = -1
        epoch, self._claim = self._claim, None
        self._claims += 1
        self._enter(epoch)

    def _enter(self, epoch: int) -> None:
        self.epoch = epoch
        self.next_seq = 0
        self._epoch_open = False


def body_of(batch: Batch, *, as_json: bool) -> bytes:
    """Encode a batch as a request body."""
    return bodies.join(batch.messages, as_json=as_json) if batch.messages else b""


def _check(
    producer_id: str, epoch: int | None, max_batch_bytes: int, linger_s: float, max_in_flight: int
) -> None:
    if not producer_id:
        raise ValueError("producer_id must not be empty")
    if epoch is not None and not 0 <= epoch <= MAX_SAFE_INTEGER:
        raise ValueError(f"epoch must be from 0 to {MAX_SAFE_INTEGER}, not {epoch}")
    if max_batch_bytes < 1:
        raise ValueError(f"max_batch_bytes must be at least 1, not {max_batch_bytes}")
    if linger_s < 0:
        raise ValueError(f"linger_ms must not be negative, not {linger_s * 1000:g}")
    if max_in_flight < 1:
        raise ValueError(f"max_in_flight must be at least 1, not {max_in_flight}")
