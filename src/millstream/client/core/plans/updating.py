"""Updating: read, decide, append where the reading ended, and again when somebody else was faster.

    read to the tail T --> decide --> append, expecting T --> done
          ^                  |               |
          |                  | nothing       | conflict: wait a little, by chance
          |                  v               |
          |                done              |
          `---- from T on, only what is new -´

An append whose answer was lost must neither be repeated nor be given up. By its offset alone it cannot be
found out: a conflict then may come from the append itself. So each append has a producer's stamp. The
server looks at the stamp first: if it has stored this append, sending it again is a duplicate, which is a
success; if it has not, the conflict is another writer's. This is exact even when two writers append
the same bytes, and takes one request.

A stamp is an id that a process has made for itself, an epoch that is new for each append, and number 0. A
new epoch needs no state but the last one, and fences everything that was sent with earlier ones, so an
append that was abandoned and arrives late changes nothing. Updates that run at the same time have
different ids: a later epoch must not hide whether an earlier append was stored. Ids are used again, because a
stream remembers a limited number of them; where it can remember no more, appends go without a stamp, and an
answer that was lost is a `TransportError`, as on every append.

Rule X6.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from millstream.client.core import bodies, errors
from millstream.client.core.endpoints import Endpoint
from millstream.client.core.exchanges import Call, ContentChunk, Deliver, Plan, Sleep, Started, Terms
from millstream.client.core.extensions import Extension
from millstream.client.core.models import AppendResult, Changes, ProducerStamp
from millstream.client.core.plans import writing
from millstream.client.core.plans.reading import Reader
from millstream.client.core.retry import Attempts, Retry

CONFLICTS: Final = Retry(initial_delay_s=0.005, max_delay_s=0.5, max_total_s=60.0)
"""How to wait after a conflict, and for how long to try."""

MAX_CLAIMS: Final = 16
"""How often a stream may refuse the epoch of one append."""

_IN_DOUBT: Final = "The server's answer was lost, and the stream has changed since: this append may be in it"

_AS_STORED: Final[Changes] = {"headers": {"Cache-Control": "no-cache"}}
"""A cache may answer with the tail of a minute ago, and then no append could ever succeed."""


class Writer:
    """What this process calls itself when it updates streams: one id, for one update at a time."""

    def __init__(self) -> None:
        self._id = f"update-{uuid.uuid4().hex}"
        self._epoch = -1

    def stamp(self, above: int = -1) -> ProducerStamp:
        """Give the stamp of another append, with an epoch that is higher than all before."""
        self._epoch = max(self._epoch, above) + 1
        return ProducerStamp(self._id, self._epoch, 0)


_idle: list[Writer] = []  # `pop` and `append` of a list are atomic, so threads need no lock
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # two processes must not use the same id


@contextmanager
def _writer() -> Iterator[Writer]:
    try:
        writer = _idle.pop()
    except IndexError:
        writer = Writer()
    try:
        yield writer
    finally:
        _idle.append(writer)


class Update:
    """One update of a stream."""

    def __init__(self, endpoint: Endpoint, terms: Terms, expect: Extension, offset: str) -> None:
        self._endpoint = endpoint
        self._terms = terms
        self._expect = expect
        self._offset = offset

    def plan(self, decide: Callable[[Any], Any]) -> Plan[AppendResult | None]:
        """Repeat until nobody else has written in between; None when there was nothing to append."""
        kind = yield from self._expect.content_type()
        as_json = bodies.is_json(kind)
        seen: list[Any] = []
        conflicts = Attempts(CONFLICTS, self._terms.chance)
        with _writer() as writer:
            while True:
                for chunk in (yield from self._read_on()):
                    seen += bodies.from_json(chunk.data, self._endpoint.url) if as_json else [chunk.data]
                decided = yield Call(decide, list(seen) if as_json else b"".join(seen))
                body = bodies.content(decided, as_json=as_json) if decided is not None else b""
                if not body:
                    return None
                try:
                    return (yield from self._append(writer, body, kind.encode("latin-1")))
                except errors.OffsetConflictError:
                    delay_s = conflicts.delay_s()
                    if delay_s is None:
                        raise
                yield Sleep(delay_s)

    def _read_on(self) -> Plan[list[ContentChunk]]:
        """Read what is new, to the tail."""
        reader = Reader(self._endpoint.changed(_AS_STORED), self._terms, offset=self._offset, live=False)
        chunks: list[ContentChunk] = []
        reading, outcome = reader.plan(), None
        try:
            effect = next(reading)
            while True:
                if isinstance(effect, Deliver | Started):
                    if isinstance(effect, Deliver) and effect.chunk.parts:
                        chunks.append(effect.chunk)
                    effect = reading.send(None)
                    continue
                try:
                    outcome = yield effect
                except errors.TransportError as error:
                    effect = reading.throw(error)
                else:
                    effect = reading.send(outcome)
        except StopIteration:
            self._offset = reader.offset
            return chunks

    def _append(self, writer: Writer, body: bytes, content_type: bytes) -> Plan[AppendResult]:
        """Append where the reading ended, and find out whether it happened."""
        stamp: ProducerStamp | None = writer.stamp()
        for _ in range(MAX_CLAIMS):
            ask = writing.append_ask(
                body, self._terms, content_type, stamp=stamp, expected_offset=self._offset
            )
            attempts = Attempts(self._terms.retry, self._terms.chance)
            try:
                return (yield from writing.append(self._endpoint, self._terms, ask, attempts))
            except errors.StaleEpochError as refused:
                if attempts.doubtful:
                    raise
                stamp = writer.stamp(above=refused.current_epoch)  # the stream has forgotten producers
            except errors.UnauthorizedError as refused:
                if refused.code != "TOO_MANY_PRODUCERS":
                    raise
                stamp = None
            except (errors.StreamClosedError, errors.OffsetConflictError) as refused:
                # A closed stream does not look at stamps, and an append without one cannot be told apart.
                if not attempts.doubtful or (stamp and isinstance(refused, errors.OffsetConflictError)):
                    raise
                raise errors.TransportError(_IN_DOUBT, url=self._endpoint.url) from None
        raise errors.ParseError("The server refuses every epoch", url=self._endpoint.url)
