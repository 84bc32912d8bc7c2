"""Multipart appends, as plans: stage parts, commit them together, drop those that are not needed.

A server without the extension would take a part for a plain append, so every handle asks once, with
a HEAD, whether it has it. What may be repeated safely: everything. A part that was staged before is
the same part; a commit that was carried out before has left its parts gone, so repeating it doubles
nothing. Whether it was carried out is told by a producer's stamp, or by having staged all of its
parts oneself, under ids that nobody else knows.

Rule X3.
"""

import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

from millstream.client.core import bodies, errors, writing
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange, refusal
from millstream.client.core.models import AppendResult, ProducerStamp
from millstream.client.core.retry import Attempts
from millstream.protocol import headers

EXTENSION: Final = "parts"
PART_BYTES: Final = 4 * 2**20
"""How large a part becomes before it is staged, unless told otherwise."""

_SURE_S = 23 * 3600
"""For how long parts that were staged are certainly there: servers keep them for a day."""
_JSON = b"application/json"


class Parts:
    """What one handle asks about parts."""

    def __init__(self, endpoint: Endpoint, terms: Terms) -> None:
        self.endpoint = endpoint
        self.terms = terms
        self._content_type: str | None = None

    def content_type(self) -> Plan[str]:
        """Find out the stream's content type and, once, that the server has parts at all."""
        if self._content_type is None:
            found = yield from writing.head(self.endpoint, self.terms)
            if EXTENSION not in found.extensions:
                message = "The server has no multipart appends (Millstream-Extensions does not name parts)"
                raise errors.NotSupportedError(message, url=self.endpoint.url)
            self._content_type = found.content_type or "application/octet-stream"
        return self._content_type

    def stage(self, id: str, data: Any) -> Plan[None]:
        """Stage a part."""
        kind = yield from self.content_type()
        body = bodies.content(data, as_json=bodies.is_json(kind))
        yield from self.stage_body(id, body, kind)

    def stage_body(self, id: str, body: bytes, content_type: str) -> Plan[None]:
        """Stage a part that is written down already."""
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
        sure: bool = False,
    ) -> Plan[AppendResult]:
        """Commit parts; `sure` when they were certainly there, so that their absence means success."""
        yield from self.content_type()
        body = bodies.to_json({"parts": list(ids)})
        plain = writing.append_ask(body, self.terms, _JSON, seq=seq, stamp=stamp, closes=closes)
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
        """Drop a part; one that is not there is as good as dropped."""
        yield from self.content_type()
        ask = Ask(b"DELETE", params=(("part", id),), timeout_s=self.terms.timeout_s)
        answer = yield from exchange(self.endpoint, ask, self.terms, safe=True)
        if answer.status != 204:
            raise refusal(self.endpoint, ask, answer, self.terms)


class Draft:
    """A multipart append that is being written: messages that are buffered, and parts that are staged."""

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
        """Take a message; when there are enough of them, stage a part."""
        self._check_open()
        kind = yield from self._parts.content_type()
        message = bodies.message(data, as_json=bodies.is_json(kind))
        if self._messages and self._size + len(message) > self._part_bytes:
            yield from self._stage(kind)
        if message:
            self._messages.append(message)
            self._size += len(message) + 1

    def commit(
        self, *, seq: str | None, stamp: ProducerStamp | None, closes: bool
    ) -> Plan[AppendResult | None]:
        """Append everything at once; nothing when there is nothing to do."""
        self._check_open()
        if self._messages:
            kind = yield from self._parts.content_type()
            yield from self._stage(kind)
        result = None
        if self._ids or closes:
            sure = time.monotonic() - self._begun_s < _SURE_S
            result = yield from self._parts.commit(
                self._ids, seq=seq, stamp=stamp, closes=closes, sure=sure and bool(self._ids)
            )
            if result.duplicate:  # then these parts may never have been used
                yield from self._drop_all()
        self.is_over = True
        return result

    def abort(self) -> Plan[None]:
        """Drop what was staged, as far as the server can be reached; what is left expires by itself."""
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
