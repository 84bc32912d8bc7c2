"""Server-Sent Events, parsed as a browser does, with the raw lines kept.

The parser follows the EventSource standard: lines end at CRLF, LF or CR, one space after the
colon is dropped, `data` lines are joined with LF. Bytes must be UTF-8: a browser would replace
broken ones silently, here they fail the test.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from millstream_conformance.server.connections import Address, Connection, WireError
from millstream_conformance.server.transcripts import Transcript, readable
from millstream_conformance.server.wire import Answer, Request


@dataclass(frozen=True, slots=True)
class Event:
    """One dispatched event: its kind, its payload, its raw lines, and the write it came in."""

    kind: str
    data: str
    lines: tuple[str, ...]
    piece: int

    def json(self) -> Any:
        """The payload as JSON."""
        return json.loads(self.data)

    def decoded(self) -> bytes:
        """The payload of a base64 event as bytes; lines are joined first, as the protocol says."""
        return base64.b64decode("".join(self.data.split("\n")), validate=True)


class EventParser:
    """Bytes in, events out. Feed it pieces of any size."""

    def __init__(self) -> None:
        self._pending = b""
        self._lines: list[str] = []
        self._piece = 0
        self.comments: list[str] = []

    def feed(self, data: bytes) -> list[Event]:
        """Take the next piece and return the events that it completes."""
        self._piece += 1
        self._pending += data
        events = []
        for line in self._complete_lines():
            if line:
                self._lines.append(line)
            elif self._lines:
                events.append(self._dispatch())
        return events

    def _complete_lines(self) -> Iterator[str]:
        while True:
            ends = [at for at in (self._pending.find(b"\n"), self._pending.find(b"\r")) if at >= 0]
            if not ends:
                return
            end = min(ends)
            if self._pending[end : end + 1] == b"\r" and end + 1 == len(self._pending):
                return  # the LF of a CRLF may still come
            width = 2 if self._pending[end : end + 2] == b"\r\n" else 1
            line, self._pending = self._pending[:end], self._pending[end + width :]
            yield line.decode("utf-8")

    def _dispatch(self) -> Event:
        lines, self._lines = tuple(self._lines), []
        kind, data = "message", []
        for line in lines:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            elif not name:
                self.comments.append(value)
        return Event(kind, "\n".join(data), lines, self._piece)


class EventStream:
    """A live SSE connection: `next()` waits for one event, None means the server ended it."""

    def __init__(self, address: Address, request: Request, transcript: Transcript, timeout_s: float) -> None:
        self._transcript = transcript
        self._address = address
        self._connection = Connection(address, timeout_s)
        self._connection.sock.settimeout(timeout_s)
        self._parser = EventParser()
        self._ready: list[Event] = []
        self.raw = b""
        try:
            self._open(request)
        except BaseException:
            self._connection.close()
            raise

    def _open(self, request: Request) -> None:
        started = time.perf_counter()
        self._connection.send(request.encode(self._address.host))
        status, reason, headers = self._connection.read_head()
        self._pieces = self._connection.body_pieces(request.method, status, headers)
        self.is_live = status == 200 and (headers.get("Content-Type") or "").startswith("text/event-stream")
        body = b"" if self.is_live else b"".join(self._pieces)
        self.answer = Answer(request, status, reason, headers, body, time.perf_counter() - started)
        self._transcript.add(request, self._address.host, self.answer)

    def next(self, timeout_s: float = 3.0) -> Event | None:
        """The next event that is not only a comment, or None at the end of the stream."""
        assert self.is_live, f"{self.answer!r} is not an event stream"
        deadline = time.monotonic() + timeout_s
        while not self._ready:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise AssertionError(f"no event within {timeout_s} s; received so far: {self.raw[-300:]!r}")
            self._connection.sock.settimeout(remaining)
            try:
                piece = next(self._pieces, None)
            except TimeoutError:
                continue
            if piece is None:
                return None
            self.raw += piece
            self._ready += [event for event in self._parser.feed(piece) if _dispatchable(event)]
        return self._ready.pop(0)

    def events(self, timeout_s: float = 3.0) -> list[Event]:
        """Every event until the server ends the connection."""
        found = []
        while (event := self.next(timeout_s)) is not None:
            found.append(event)
        return found

    def until_control(self, *, up_to_date: bool = False, timeout_s: float = 3.0) -> list[Event]:
        """Events up to and including the next control event (or the one that is up to date)."""
        found = []
        while (event := self.next(timeout_s)) is not None:
            found.append(event)
            if event.kind == "control" and (not up_to_date or event.json().get("upToDate")):
                return found
        raise AssertionError(f"the stream ended before the control event; received {self.raw[-300:]!r}")

    def ended(self, timeout_s: float = 3.0) -> bool:
        """Whether the server ends the connection cleanly, without further events."""
        try:
            return self.next(timeout_s) is None
        except (WireError, AssertionError):
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_live:
            self._transcript.note(f"(the events)\n{readable(self.raw)}")
        self._connection.close()


def _dispatchable(event: Event) -> bool:
    return any(line.startswith(("event", "data")) for line in event.lines)
