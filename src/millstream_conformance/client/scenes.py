"""A scene: the part of the scripted server that belongs to one case.

Each case has its own streams, faults and record of requests, selected by the first segment of the
path. So cases do not affect each other, and several can run at once.

    client's request -> record -> misbehaviour? -> the protocol's answer -> misbehaviour? -> client
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from millstream_conformance.client.streams import Stream
from millstream_conformance.readable import readable

WAITING_S = 0.03


@dataclass(frozen=True)
class Request:
    """One request exactly as received."""

    method: str
    path: str
    query_text: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    at_s: float = field(default_factory=time.monotonic)

    @property
    def query(self) -> list[tuple[str, str]]:
        """The query parameters in the order in which they were sent."""
        return parse_qsl(self.query_text, keep_blank_values=True)

    def param(self, name: str) -> str | None:
        """The first value of a query parameter."""
        return next((value for key, value in self.query if key == name), None)

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever its case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def render(self) -> str:
        """The request as readable text."""
        target = self.path + (f"?{self.query_text}" if self.query_text else "")
        return marked(
            ">", f"{self.method} {target}", [f"{name}: {value}" for name, value in self.headers], self.body
        )


@dataclass(frozen=True)
class Misbehaviour:
    """A fault: what goes wrong, for which requests, how often.

    `drop` closes the connection: "before" the request is carried out, or "after". A `status`
    replaces the answer; the request is carried out only with `commit`. The other fields change
    the answer that the protocol would give.
    """

    method: str | None = None
    live: str | None = None
    skip: int = 0
    times: int = 1
    drop: str | None = None
    delay_ms: int = 0
    status: int | None = None
    commit: bool = False
    headers: dict[str, str | None] = field(default_factory=dict)
    body: str | None = None
    body_base64: str | None = None
    truncate: int | None = None
    piece: int | None = None
    hang: bool = False

    def fits(self, request: Request) -> bool:
        """Whether it applies to this request."""
        live = request.param("live")
        return (self.method is None or self.method == request.method) and (
            self.live is None or self.live == (live or "none")
        )


class Scene:
    """The streams, the faults and the record of one case."""

    def __init__(self, name: str, *, chunk_bytes: int, long_poll_ms: int, odd_offsets: bool) -> None:
        self.name = name
        self.chunk_bytes = chunk_bytes
        self.long_poll_s = long_poll_ms / 1000
        self.odd_offsets = odd_offsets
        self.streams: dict[str, Stream] = {}
        self.requests: list[Request] = []
        self.changed = threading.Condition()
        self.over = False
        self.sequel: deque[tuple[str, Callable[[], None]]] = deque()
        self.cursors = 0
        self._misbehaviour: list[list[Any]] = []
        self._said: list[str] = []

    # -- For the runner -----------------------------------------------------------------

    def create(self, path: str, content_type: str, data: bytes, *, closed: bool) -> None:
        """Create a stream without the client."""
        with self.changed:
            stream = Stream(content_type, odd_offsets=self.odd_offsets)
            if data:
                stream.add(data)
            stream.closed = closed
            self.streams[path] = stream
            self.changed.notify_all()

    def change(self, path: str, *, data: bytes = b"", close: bool = False, delete: bool = False) -> None:
        """Append, close or delete without the client."""
        with self.changed:
            stream = self.streams[path]
            if data:
                stream.add(data)
            stream.closed = stream.closed or close
            if delete:
                del self.streams[path]
            self.changed.notify_all()

    def misbehave(self, what: Misbehaviour) -> None:
        """Add a fault."""
        with self.changed:
            self._misbehaviour.append([what, what.skip, what.times])

    def behave(self) -> None:
        """Remove all faults."""
        with self.changed:
            self._misbehaviour.clear()

    def end(self) -> None:
        """The case is over: wake all waiting connections."""
        with self.changed:
            self.over = True
            self.changed.notify_all()

    # -- For connections --------------------------------------------------------------------

    def arrive(self, request: Request) -> Misbehaviour | None:
        """Record a request and return the fault that applies to it."""
        with self.changed:
            self.requests.append(request)
            self._said.append(request.render())
            for entry in self._misbehaviour:
                what, skip, left = entry
                if left and what.fits(request):
                    if skip:
                        entry[1] -= 1
                        continue
                    entry[2] -= 1
                    return what  # type: ignore[no-any-return]  # entries are [Misbehaviour, int, int]
            return None

    def wait(self, timeout_s: float) -> None:
        """Wait for a change. A step with `whenWaiting` is executed now."""
        if self.sequel:
            self.changed.wait(WAITING_S)
            if self.sequel and not self.over:
                text, act = self.sequel.popleft()
                self._said.append(text)
                act()
                return
        self.changed.wait(timeout_s)

    def say(self, text: str) -> None:
        """Add to the transcript."""
        with self.changed:
            self._said.append(text)

    def transcript(self) -> str:
        """All recorded messages, in order."""
        with self.changed:
            return "\n".join(self._said)


def marked(mark: str, first: str, head: list[str], body: bytes) -> str:
    """An HTTP message, indented below the adapter's lines."""
    lines = [first, *head, *(["", *readable(body).split("\n")] if body else [])]
    return "\n".join(f"    {mark} {line}".rstrip() for line in lines)
