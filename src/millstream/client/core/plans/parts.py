"""Multipart appends, as plans: stage parts, commit them atomically, drop those that are not needed.

Everything is safe to retry: staging the same part twice changes nothing, and a commit consumes its
parts, so it cannot happen twice. Whether a commit happened is known from the producer's stamp, or
because this client staged all of its parts under unique ids.

Rule X3.
"""

import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

from millstream.client.core import bodies, errors, extensions
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange, refusal
from millstream.client.core.extensions import Extension
from millstream.client.core.models import AppendResult, ProducerStamp
from millstream.client.core.plans import writing
from millstream.client.core.retry import Attempts
from millstream.protocol import headers

PART_BYTES: Final = 4 * 2**20
"""The default size at which a part is staged."""

_SURE_S = 23 * 3600
"""For how long staged parts certainly exist: servers keep them for a day."""
_JSON = b"application/json"


class Parts:
    """The requests about parts of one handle."""

    def __init__(self, endpoint: Endpoint, terms: Terms) -> None:
        self.endpoint = endpoint
        self.terms = terms
        self.content_type = Extension(endpoint, terms, extensions.PARTS).content_type
        self._check_expect = Extension(endpoint, terms, extensions.EXPECT).content_type

    def stage(self, id: str, data: Any) -> Plan[None]:
        """Stage a part."""
        kind = yield from self.content_type()
        body = bodies.content(data, as_json=bodies.is_json(kind))
        yield from self.stage_body(id, body, kind)

    def stage_body(self, id: str, body: bytes, content_type: str) -> Plan[None]:
        """Stage a part that is already encoded."""
        ask = Ask(
            b"POST",
            {headers.CONTENT_TYPE: content_type.encode("latin-1")},
            (("part", id),),
            body,
            self.terms.timeout_s,
        )
        answer = yield from exchange(self.endpoint, ask, self.terms, safe=True)
        if answer.status != 204:
            raise refusal(self.endpoint, ask, answer, self.terms)

    def commit(
        self,
        ids: Sequence[str],
        *,
        seq: str | None,
        stamp: ProducerStamp | None,
        closes: bool,
        expected_offset: str | None = None,
        sure: bool = False,
        fingerprint: str | None = None,
    ) -> Plan[AppendResult]:
        """Commit parts. `sure`: they certainly were staged, so on a retry their absence means success."""
        yield from self.content_type()
        if expected_offset is not None:
            yield from self._check_expect()
        listed = {"parts": list(ids), **({"fingerprint": fingerprint} if fingerprint is not None else {})}
        body = bodies.to_json(listed)
        plain = writing.append_ask(
            body, self.terms, _JSON, seq=seq, stamp=stamp, closes=closes, expected_offset=expected_offset
        )
        ask = Ask(plain.method, plain.headers, (("parts", "commit"),), body, plain.timeout_s)
        attempts = Attempts(self.terms.retry, self.terms.chance)
        safe = stamp is not None or sure
        answer = yield from exchange(self.endpoint, ask, self.terms, safe=safe, attempts=attempts)
        if answer.status in (200, 204):
            result = writing.appended(self.endpoint, self.terms, ask, answer)
            is_repeated = bool(result.duplicate and ids)
            return AppendResult(result.next_offset, result.stream_closed, is_repeated)
        problem = refusal(self.endpoint, ask, answer, self.terms)
        if sure and attempts.failures and isinstance(problem, errors.PartMissingError):
            found = yield from writing.head(self.endpoint, self.terms)
            return AppendResult(found.offset or "", found.stream_closed)
        raise problem

    def drop(self, id: str) -> Plan[None]:
        """Drop a part; a missing one is not an error."""
        yield from self.content_type()
        ask = Ask(b"DELETE", params=(("part", id),), timeout_s=self.terms.timeout_s)
        answer = yield from exchange(self.endpoint, ask, self.terms, safe=True)
        if answer.status != 204:
            raise refusal(self.endpoint, ask, answer, self.terms)


class Draft:
    """A multipart append in progress: buffered messages and staged parts."""

    def __init__(self, parts: Parts, part_bytes: int) -> None:
        if part_bytes < 1:
            raise ValueError(f"part_bytes is at least 1, not {part_bytes}")
        self._parts = parts
        self._part_bytes = part_bytes
        self._prefix = uuid.uuid4().hex
        self._begun_s = time.monotonic()
        self._ids: list[str] = []
        self._messages: list[bytes] = []
        self._size = 0
        self.is_over = False

    def write(self, data: Any) -> Plan[None]:
        """Add a message; stage a part when it is full."""
        self._check_open()
        kind = yield from self._parts.content_type()
        message = bodies.message(data, as_json=bodies.is_json(kind))
        if self._messages and self._size + len(message) > self._part_bytes:
            yield from self._stage(kind)
        if message:
            self._messages.append(message)
            self._size += len(message) + 1

    def commit(
        self, *, seq: str | None, stamp: ProducerStamp | None, closes: bool, expected_offset: str | None
    ) -> Plan[AppendResult | None]:
        """Commit everything; None if there is nothing to do."""
        self._check_open()
        if self._messages:
            kind = yield from self._parts.content_type()
            yield from self._stage(kind)
        result = None
        if self._ids or closes:
            sure = time.monotonic() - self._begun_s < _SURE_S
            result = yield from self._parts.commit(
                self._ids,
                seq=seq,
                stamp=stamp,
                closes=closes,
                expected_offset=expected_offset,
                sure=sure and bool(self._ids),
            )
            if result.duplicate:  # then these parts may never have been used
                yield from self._drop_all()
        self.is_over = True
        return result

    def abort(self) -> Plan[None]:
        """Drop staged parts if the server is reachable; otherwise they expire."""
        if not self.is_over:
            self.is_over = True
            yield from self._drop_all()

    def _drop_all(self) -> Plan[None]:
        try:
            for id in self._ids:
                yield from self._parts.drop(id)
        except errors.MillstreamError:
            pass  # the rest would fail too

    def _stage(self, kind: str) -> Plan[None]:
        id = f"{self._prefix}-{len(self._ids):06}"
        self._ids.append(id)  # before it is known to be there, so that an abort does not forget it
        body = bodies.join(self._messages, as_json=bodies.is_json(kind))
        self._messages, self._size = [], 0
        yield from self._parts.stage_body(id, body, kind)

    def _check_open(self) -> None:
        if self.is_over:
            raise ValueError("this multipart append is committed or aborted; begin another one")
