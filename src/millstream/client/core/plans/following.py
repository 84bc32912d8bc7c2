"""Following many streams on one connection. An extension that not every server has.

    connected --cut, or the server's time is up--> connected again, from the positions
        |
        `-- every named stream has ended, and there is no glob --> done

A stream's position moves when a control event has arrived, and its content is delivered then. After any cut
the request names all streams that are followed with their positions, so nothing is read twice or missed.
Streams that a glob has found are named, too. For those that were created meanwhile, the server gives a value
that is sent back as `from`. Until it has told of all streams that there are, named ones that have ended stay
named, so that the glob does not find them.

docs/protocol.md, "Extensions"; rule X9.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from millstream.client.core import errors, retry
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import (
    Deliver,
    FollowedChunk,
    Open,
    Plan,
    Read,
    Shut,
    Sleep,
    Terms,
    delay_after,
    refusal,
)
from millstream.client.core.models import HeadersLike, StreamBatch
from millstream.client.core.plans.reading import LIVE_TIMEOUT_S, YOUNG_S
from millstream.client.core.retry import Attempts
from millstream.client.core.transport import Answer
from millstream.protocol import events, headers, sse
from millstream.protocol.content import Kind, kind_of
from millstream.protocol.errors import MalformedError

Streams = Mapping[str, str] | Iterable[str]
"""Paths with their offsets, or only paths."""

_MAX_URL_BYTES: Final = 4000  # longer ones go into the body of a POST: proxies limit URLs
_FORM: Final = {headers.CONTENT_TYPE: b"application/x-www-form-urlencoded"}
_JSON: Final = {headers.CONTENT_TYPE: b"application/problem+json"}


class _State(msgspec.Struct):
    """What is known of a stream that is followed."""

    content_type: str = ""
    is_base64: bool = False
    reported: tuple[bool, bool, bool] = (False, False, False)


class Follower:
    """The positions in many streams, and what to do next."""

    def __init__(
        self,
        url: str,
        headers: HeadersLike | None,
        terms: Terms,
        streams: Streams,
        globs: Iterable[str],
        *,
        from_beginning: bool,
        globs_from: str | None,
    ) -> None:
        start = "-1" if from_beginning else "now"
        if isinstance(streams, str) or isinstance(globs, str):
            raise TypeError("streams and globs are lists; for one, write [path]")
        given = dict(streams) if isinstance(streams, Mapping) else dict.fromkeys(streams, start)
        self.globs = tuple(globs)
        if not given and not self.globs:
            raise ValueError("there is nothing to follow: neither streams nor globs")
        for path in given:
            if not path.startswith("/"):
                raise ValueError(f"a stream's path begins with a slash, not {path!r}")
        self.positions = given
        """Where each stream is read next; streams that have ended are not here any more."""
        self.globs_from = globs_from or start
        """From where streams begin that globs find; a value for another reader that continues here."""
        self._named = frozenset(given)
        self._ended: dict[str, str] = {}
        self._states: dict[str, _State] = {}
        self._is_told = not self.globs
        self._has_moved = False
        self._root = url.rstrip("/")
        self._headers = headers
        self._endpoint = Endpoint(f"{self._root}/__ds/events", headers)
        self._terms = terms

    def plan(self) -> Plan[None]:
        """Follow until every named stream has ended, or for ever if there are globs."""
        attempts = Attempts(self._terms.retry, self._terms.chance)
        while self._goes_on():
            ask = self._ask()
            opened_at = self._terms.chance.clock()
            self._has_moved = False
            outcome: Answer | errors.TransportError
            try:
                answer: Answer = yield Open(self._endpoint, ask)
                outcome = answer
                if answer.status == 200:
                    yield from self._events(answer)
                elif answer.status not in retry.STATUSES:
                    raise self._refusal(ask, Answer(answer.status, answer.headers, (yield Read())))
            except errors.TransportError as error:
                outcome = error
            yield Shut()
            if not self._goes_on():
                return
            is_old = self._terms.chance.clock() - opened_at >= YOUNG_S
            if is_old or self._has_moved:
                attempts = Attempts(self._terms.retry, self._terms.chance)
            if not is_old or not isinstance(outcome, Answer) or outcome.status != 200:
                yield Sleep(self._pause(outcome, attempts, ask))

    def _goes_on(self) -> bool:
        return bool(self.positions or self.globs)

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
        raise self._refusal(ask, outcome)

    def _ask(self) -> Ask:
        named = {**self._ended, **self.positions}
        params = [f"stream={quote(path)}@{offset}" for path, offset in named.items()]
        params += [f"glob={quote(glob)}" for glob in self.globs]
        if self.globs:
            params.append(f"from={quote(self.globs_from)}")
        query = "&".join(params)
        timeout_s = max(LIVE_TIMEOUT_S, self._terms.timeout_s)
        if len(query) <= _MAX_URL_BYTES:
            return Ask(b"GET", query=query, timeout_s=timeout_s)
        return Ask(b"POST", _FORM, body=query.encode(), timeout_s=timeout_s)

    def _refusal(self, ask: Ask, answer: Answer) -> errors.MillstreamError:
        if answer.status in (404, 405):
            return errors.NotSupportedError(
                "This server cannot send the events of many streams on one connection",
                url=self._endpoint.url,
                status=answer.status,
            )
        return refusal(self._endpoint, ask, answer, self._terms)

    # -- Events --------------------------------------------------------------------------------------

    def _events(self, answer: Answer) -> Plan[None]:
        if not answer.headers.get(headers.CONTENT_TYPE, b"").lower().startswith(b"text/event-stream"):
            raise errors.NotSupportedError(
                "The response is no event stream", url=self._endpoint.url, status=answer.status
            )
        parser = sse.Parser()
        content: dict[str, list[bytes]] = {}
        while received := (yield Read()):
            for event in parser.feed(received):
                try:
                    if event.type == "data":
                        path = unquote(event.id.rpartition("@")[0])
                        content.setdefault(path, []).append(self._decode(path, event.data))
                    elif event.type == "control":
                        control = events.parse_control(event.data)
                        parts = tuple(content.pop(control.stream_path, ()))
                        yield from self._move(control, parts)
                    elif event.type == "error":
                        yield from self._fail(events.parse_failed(event.data))
                    elif event.type == "globs":
                        self._told(events.parse_told(event.data))
                except MalformedError as error:
                    raise errors.ParseError(error.detail.rstrip("."), url=self._endpoint.url) from None
                if not self._goes_on():
                    return

    def _decode(self, path: str, data: str) -> bytes:
        state = self._states.get(path)
        return sse.decode_base64(data) if state is not None and state.is_base64 else data.encode()

    def _move(self, control: events.Control, parts: tuple[bytes, ...]) -> Plan[None]:
        """Move to the server's offset; deliver content and changes of state."""
        path, offset = control.stream_path, control.stream_next_offset
        self._has_moved = True
        has_ended = control.stream_closed or control.stream_deleted
        state = self._states.get(path)
        if state is None or (path in self._ended and not has_ended):
            state = self._states[path] = _State()
            self._ended.pop(path, None)
        if control.stream_content_type is not None:
            state.content_type = control.stream_content_type
            state.is_base64 = control.stream_data_encoding == "base64"
        if has_ended:
            self._end(path, offset)
        else:
            self.positions[path] = offset
        now = (control.up_to_date or control.stream_closed, control.stream_closed, control.stream_deleted)
        if parts or state.reported != now:
            state.reported = now
            up_to_date, closed, deleted = now
            yield Deliver(
                FollowedChunk(
                    parts,
                    offset,
                    up_to_date,
                    control.stream_cursor,
                    closed,
                    path=path,
                    content_type=state.content_type,
                    stream_deleted=deleted,
                )
            )

    def _end(self, path: str, offset: str) -> None:
        self.positions.pop(path, None)
        if not self._is_told and path in self._named:
            self._ended[path] = offset
        else:
            self._states.pop(path, None)

    def _fail(self, failed: events.Failed) -> Plan[None]:
        """Report a stream that was deleted while nobody was connected; raise what else is wrong."""
        path = failed.stream_path
        is_gone = failed.code in ("NOT_FOUND", "GONE")
        if path is not None and is_gone and path in self._states:
            offset = self.positions.get(path) or self._ended.get(path, "-1")
            yield from self._move(events.Control(offset, stream_path=path, stream_deleted=True), ())
            return
        found = dict(_JSON)
        if failed.stream_earliest_offset is not None:
            found[headers.STREAM_EARLIEST_OFFSET] = failed.stream_earliest_offset.encode()
        problem = msgspec.json.encode({"code": failed.code, "detail": failed.detail})
        endpoint = Endpoint(self._root + quote(path), self._headers) if path is not None else self._endpoint
        raise refusal(endpoint, Ask(b"GET"), Answer(failed.status, found, problem), self._terms)

    def _told(self, told: events.Told) -> None:
        self._has_moved = True
        self.globs_from = told.origin
        if told.up_to_date:
            self._is_told = True
            for path in self._ended:
                self._states.pop(path, None)
            self._ended.clear()


def batch(chunk: FollowedChunk) -> StreamBatch:
    """Give the user what a chunk has."""
    data = chunk.data
    if len(chunk.parts) > 1 and kind_of(chunk.content_type.encode("latin-1")) is Kind.JSON:
        data = b"[" + b",".join(part.strip()[1:-1] for part in chunk.parts) + b"]"
    about = (chunk.offset, chunk.up_to_date, chunk.stream_closed, chunk.stream_deleted, chunk.content_type)
    return StreamBatch(data, *about)
