"""Reading: from responses to chunks, by catch-up, long-poll or SSE.

    catch-up ----------> up to date --live=False--> done
        |                    |
        | closed             +--long-poll--> more chunks --closed--> done
        v                    `--SSE--------> more chunks --closed--> done
      done                          |
                                    `-- ends early three times --> long-poll

A reader is always at an offset that the server returned. After any failure it resumes there, so nothing
is read twice or missed. Content received by SSE is delivered when its control event has arrived. EOF
ends the read without another request.

PROTOCOL.md 5.6 to 5.8, 10.1; rules L2, L3, L5.
"""

from collections import OrderedDict
from typing import Final

from millstream.client.core import bodies, errors, retry
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import (
    Call,
    ContentChunk,
    Deliver,
    Open,
    Plan,
    Read,
    Shut,
    Sleep,
    Started,
    Terms,
    delay_after,
    exchange,
    flag,
    next_offset,
    refusal,
    text,
)
from millstream.client.core.models import LiveMode, OnError
from millstream.client.core.retry import Attempts
from millstream.client.core.transport import Answer, Headers
from millstream.protocol import headers, sse
from millstream.protocol.errors import MalformedError

LIVE_TIMEOUT_S: Final = 90.0
"""How long a live connection may stay silent: long-polls last 30 s and SSE connections 60 s."""

YOUNG_S: Final = 1.0
MAX_YOUNG_DEATHS: Final = 3

_KEPT_ANSWERS = 16
_KEPT_BYTES = 1024 * 1024


class Memory:
    """Catch-up responses that may be requested again, so that `If-None-Match` can save the transfer."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def recall(self, offset: str) -> Answer | None:
        """Return the last response to a read from this offset."""
        return self._answers.get(offset)

    def keep(self, offset: str, answer: Answer) -> None:
        """Keep a response if it is small and has an ETag."""
        if b"etag" in answer.headers and len(answer.body) <= _KEPT_BYTES:
            self._answers[offset] = answer
            self._answers.move_to_end(offset)
            if len(self._answers) > _KEPT_ANSWERS:
                self._answers.popitem(last=False)


class Reader:
    """One read of a stream: its position, and what to do next."""

    def __init__(
        self,
        endpoint: Endpoint,
        terms: Terms,
        *,
        offset: str = "-1",
        live: LiveMode = True,
        cursor: str | None = None,
        poll_timeout_s: float | None = None,
        content_type: str | None = None,
        on_error: OnError | None = None,
        memory: Memory | None = None,
    ) -> None:
        if live not in (True, False, "long-poll", "sse"):
            raise ValueError(f'live is True, False, "long-poll" or "sse", not {live!r}')
        if not offset:
            raise ValueError("an offset must not be empty; -1 is the stream's beginning")
        self.live = live
        self.start_offset = self.offset = offset
        self.cursor = cursor
        self.content_type = content_type
        self.up_to_date = False
        self.stream_closed = False
        self.status = 0
        self.headers: Headers = {}
        self._endpoint = endpoint
        self._terms = terms
        self._on_error = on_error
        self._memory = memory
        self._poll_timeout_s = poll_timeout_s
        self._by_sse = live == "sse"
        self._young_deaths = 0
        self._reported: tuple[bool, bool] | None = None

    @property
    def is_json(self) -> bool:
        """Return whether the stream is known to hold JSON messages."""
        return bodies.is_json(self.content_type)

    def plan(self) -> Plan[None]:
        """Read to the tail, or with `live` to the end of the stream."""
        while True:
            try:
                yield from self._read()
            except errors.MillstreamError as error:
                if self._on_error is None:
                    raise
                changes = yield Call(self._on_error, error)
                if changes is None:
                    raise
                self._endpoint = self._endpoint.changed(changes)
            else:
                return

    def _read(self) -> Plan[None]:
        while not self.stream_closed and (self.live or not self.up_to_date):
            yield from self._listen() if self._by_sse else self._fetch()

    # -- Catch-up and long-poll ------------------------------------------------------------------

    def _fetch(self) -> Plan[None]:
        waits = self.live == "long-poll" or (self.live is not False and self.up_to_date)
        asked = self.offset
        known = self._memory.recall(asked) if self._memory is not None and not waits else None
        ask = self._ask("long-poll" if waits else None, known)
        answer = yield from exchange(self._endpoint, ask, self._terms, safe=True)
        if answer.status == 304 and known is not None:
            answer = Answer(200, {**known.headers, **answer.headers}, known.body)
        if answer.status not in (200, 204):
            raise refusal(self._endpoint, ask, answer, self._terms)
        if self._memory is not None and not waits and answer.status == 200:
            self._memory.keep(asked, answer)
        self.content_type = text(answer, headers.CONTENT_TYPE) or self.content_type
        yield from self._begin(answer)
        is_empty = not answer.body or (answer.body == b"[]" and self.is_json)
        offset = next_offset(answer, self._endpoint.url)
        closed = flag(answer, headers.STREAM_CLOSED)
        # An empty response at the same offset is the tail, whether the server says so or not.
        stuck = offset == self.offset and is_empty
        up_to_date = closed or stuck or flag(answer, headers.STREAM_UP_TO_DATE)
        parts = () if is_empty else (answer.body,)
        cursor, last_time = text(answer, headers.STREAM_CURSOR), text(answer, headers.STREAM_LAST_TIME)
        yield from self._move(parts, offset, cursor, up_to_date, closed, last_time)

    def _ask(self, live: str | None, known: Answer | None = None) -> Ask:
        params = [("offset", self.offset)]
        if live is not None:
            params.append(("live", live))
        if self.cursor is not None:
            params.append(("cursor", self.cursor))
        if live == "long-poll" and self._poll_timeout_s is not None:
            params.append(("timeout", str(round(1000 * self._poll_timeout_s))))
        fields = {b"if-none-match": known.headers[b"etag"]} if known is not None else {}
        timeout_s = self._terms.timeout_s if live is None else max(LIVE_TIMEOUT_S, self._terms.timeout_s)
        return Ask(b"GET", fields, tuple(params), timeout_s=timeout_s)

    # -- Server-sent events ----------------------------------------------------------------------

    def _listen(self) -> Plan[None]:
        attempts = Attempts(self._terms.retry, self._terms.chance)
        while self._listens():
            ask = self._ask("sse")
            opened_at = self._terms.chance.clock()
            offset_before = self.offset
            outcome: Answer | errors.TransportError
            try:
                answer: Answer = yield Open(self._endpoint, ask)
                outcome = answer
                if answer.status == 200:
                    yield from self._events(answer)
                elif answer.status not in retry.STATUSES:
                    whole = Answer(answer.status, answer.headers, (yield Read()))
                    raise refusal(self._endpoint, ask, whole, self._terms)
            except errors.TransportError as error:
                outcome = error
            yield Shut()
            if not self._listens():
                return
            lived_s = self._terms.chance.clock() - opened_at
            if lived_s >= YOUNG_S or self.offset != offset_before:
                attempts = Attempts(self._terms.retry, self._terms.chance)
            if lived_s >= YOUNG_S:
                self._young_deaths = 0
                if isinstance(outcome, Answer) and outcome.status == 200:
                    continue  # servers end these connections regularly; that is not a failure
            elif not isinstance(outcome, Answer) or outcome.status == 200:
                self._young_deaths += 1
                if self._young_deaths >= MAX_YOUNG_DEATHS:
                    self._by_sse = False
                    return
            yield Sleep(self._pause(outcome, attempts, ask))

    def _listens(self) -> bool:
        return self._by_sse and not self.stream_closed

    def _pause(self, outcome: Answer | errors.TransportError, attempts: Attempts, ask: Ask) -> float:
        if isinstance(outcome, Answer) and outcome.status == 200:
            delay_s = attempts.delay_s() if self._terms.retry is not None else 0.0
        else:
            delay_s = delay_after(outcome, attempts, self._terms, safe=True)
        if delay_s is not None:
            return delay_s
        if isinstance(outcome, errors.TransportError):
            raise outcome
        if outcome.status == 200:
            raise errors.TransportError("Event streams keep ending early", url=self._endpoint.url)
        raise refusal(self._endpoint, ask, outcome, self._terms)

    def _events(self, answer: Answer) -> Plan[None]:
        if not answer.headers.get(headers.CONTENT_TYPE, b"").lower().startswith(b"text/event-stream"):
            self._by_sse = False  # a proxy in between seems to buffer or cut event streams
            return
        yield from self._begin(answer)
        is_base64 = answer.headers.get(headers.STREAM_SSE_DATA_ENCODING, b"").lower() == b"base64"
        parser = sse.Parser()
        content: list[bytes] = []
        while received := (yield Read()):
            for event in parser.feed(received):
                try:
                    if event.type == "data":
                        content.append(sse.decode_base64(event.data) if is_base64 else event.data.encode())
                    elif event.type == "control":
                        control = sse.parse_control(event.data)
                        parts = tuple(content)
                        content.clear()
                        yield from self._move(
                            parts,
                            control.stream_next_offset,
                            control.stream_cursor,
                            control.up_to_date,
                            control.stream_closed,
                            control.stream_last_time,
                        )
                        if self.stream_closed:
                            return
                except MalformedError as error:
                    raise errors.ParseError(error.detail.rstrip("."), url=self._endpoint.url) from None

    # -- Both ------------------------------------------------------------------------------------

    def _begin(self, answer: Answer) -> Plan[None]:
        is_first = not self.status
        self.status, self.headers = answer.status, answer.headers
        self.start_offset = text(answer, headers.STREAM_START_OFFSET) or self.start_offset
        if is_first:
            yield Started()

    def _move(
        self,
        parts: tuple[bytes, ...],
        offset: str,
        cursor: str | None,
        up_to_date: bool,
        stream_closed: bool,
        last_time: str | None,
    ) -> Plan[None]:
        """Move to the server's offset; deliver content and changes of state."""
        self.offset = offset
        self.cursor = cursor or self.cursor
        self.up_to_date = up_to_date
        self.stream_closed = stream_closed
        if parts or self._reported != (up_to_date, stream_closed):
            self._reported = (up_to_date, stream_closed)
            yield Deliver(ContentChunk(parts, offset, up_to_date, self.cursor, stream_closed, last_time))
