"""The server under test, as one test sees it.

Each test gets its own `Server`: fresh stream paths, its own transcript, and shared sockets.
`Stream` adds the operations of the protocol (append, close, read) on top of raw requests. They return
the answer unchecked: checking it is the test's work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import count
from typing import Generic, TypeVar

from millstream_conformance.server.connections import Address, Connection, HangUpError, Pool, WireError
from millstream_conformance.server.event_streams import EventStream
from millstream_conformance.server.invariants import Invariants
from millstream_conformance.server.streams import Stream
from millstream_conformance.server.transcripts import Transcript
from millstream_conformance.server.wire import Answer, HeaderInput, Headers, Request

T = TypeVar("T")
_serial = count()


class Server:
    """Requests to the server under test, recorded."""

    def __init__(
        self,
        pool: Pool,
        *,
        run_id: str,
        label: str = "t",
        standing: Invariants | None = None,
        control_root: str = "",
        timeout_s: float = 5.0,
    ) -> None:
        self.pool = pool
        self.address: Address = pool.address
        self.transcript = Transcript()
        self.timeout_s = timeout_s
        self.control_root = control_root
        self._run_id = run_id
        self._label = label
        self.standing = standing or Invariants()

    def path(self, hint: str = "s") -> str:
        """A stream path that no other test uses: one segment, since section 3 demands no deeper ones."""
        return f"/conformance-{self._run_id}-{self._label}-{hint}-{next(_serial)}"

    def request(
        self,
        method: str,
        path: str,
        headers: HeaderInput = (),
        body: bytes = b"",
        *,
        query: str = "",
        chunked: bool = False,
        fresh: bool = False,
        timeout_s: float | None = None,
    ) -> Answer:
        """Send one request to a path below the mount and return its answer.

        `fresh` uses a new connection, for requests after which it cannot be reused.
        """
        target = self.address.mount + path + (f"?{query}" if query else "")
        request = Request(method, target, Headers(headers), body, chunked)
        wait_s = timeout_s or self.timeout_s
        try:
            answer = self._exchange(request, wait_s, fresh=fresh)
        except (WireError, ValueError, OSError) as error:
            why = f"no answer in {wait_s} s" if isinstance(error, TimeoutError) else str(error)
            self.transcript.add(request, self.address.host, None, f"({why})")
            raise AssertionError(f"{method} {target}: {why}") from error
        self.transcript.add(request, self.address.host, answer)
        self.standing.observe(answer, self.address)
        return answer

    def _exchange(self, request: Request, wait_s: float, *, fresh: bool) -> Answer:
        connection = Connection(self.address, wait_s) if fresh else self.pool.acquire(self.timeout_s)
        was_used = connection.used
        try:
            answer = connection.exchange(request, wait_s)
        except HangUpError:
            connection.close()
            if not was_used:
                raise
            # An idle connection may be closed at any time, also while we write: not an answer.
            return self._exchange(request, wait_s, fresh=True)
        except BaseException:
            connection.close()
            raise
        if fresh:
            connection.close()
        else:
            self.pool.release(connection)
        return answer

    def events(self, path: str, query: str, headers: HeaderInput = ()) -> EventStream:
        """Open a live SSE connection."""
        target = f"{self.address.mount}{path}?{query}"
        opened = EventStream(
            self.address, Request("GET", target, Headers(headers)), self.transcript, self.timeout_s
        )
        self.standing.observe(opened.answer, self.address)
        return opened

    def stream(
        self,
        content_type: str | None = "text/plain",
        body: bytes = b"",
        *,
        path: str | None = None,
        headers: Mapping[str, str] | None = None,
        closed: bool = False,
    ) -> Stream:
        """Create a stream for a test to work on; failing to do so fails the test."""
        stream = Stream(self, path or self.path(), content_type)
        extra = {"Stream-Closed": "true"} if closed else {}
        stream.created = stream.put(body, headers={**extra, **(headers or {})})
        assert stream.created.status == 201, f"the test could not create its stream: {stream.created!r}"
        return stream

    def at(self, path: str, content_type: str | None = "text/plain") -> Stream:
        """A stream by its path, whether or not it exists."""
        return Stream(self, path, content_type)

    def meanwhile(self, work: Callable[[], T]) -> Meanwhile[T]:
        """Start work in a thread: a reader that waits while the test writes."""
        return Meanwhile(work)


class Meanwhile(Generic[T]):
    """Work in the background; `result()` waits for it and raises what it raised."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._outcome: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._outcome.append(work())
        except BaseException as error:  # re-raised in the waiting thread
            self._error = error

    def result(self, timeout_s: float = 45.0) -> T:
        """What the work returned."""
        self._thread.join(timeout_s)
        if self._error:
            raise self._error
        assert self._outcome, f"the background request did not finish in {timeout_s} s"
        return self._outcome[0]
