"""A transport that plays a script: what the server says next, and what it was asked.

A step is an answer, an error to raise, or a list of body pieces for an answer that is opened.
"""

from collections.abc import Iterable
from typing import Any

from millstream.client.core.exchanges import ContentChunk, Plan, Started
from millstream.client.core.transport import Answer, CancelScope, Request

OFFSETS = [f"{0:016d}_{count:016d}" for count in range(10)]


def answer(status: int = 200, body: bytes = b"", **headers: str) -> Answer:
    """Make an answer; header names are written with underscores."""
    fields = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Answer(status, fields, body)


def chunk(body: bytes, end: int, *, up_to_date: bool = True, closed: bool = False, **headers: str) -> Answer:
    """Make the answer to a read."""
    flags = {"stream_up_to_date": "true"} if up_to_date else {}
    if closed:
        flags["stream_closed"] = "true"
    return answer(200, body, content_type="text/plain", stream_next_offset=OFFSETS[end], **flags, **headers)


class Scripted:
    """The sync transport. `asked` holds every request in order."""

    def __init__(self, *steps: Any) -> None:
        self._steps = list(steps)
        self.asked: list[Request] = []

    def next(self, request: Request) -> Any:
        self.asked.append(request)
        assert self._steps, f"one request too many: {request.method.decode()} {request.url}"
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        step: Answer = self.next(request)
        return step

    def open(self, request: Request, scope: CancelScope | None = None) -> "Download":
        step = self.next(request)
        head, pieces = step if isinstance(step, tuple) else (step, [step.body])
        return Download(head, pieces)

    @property
    def finished(self) -> bool:
        return not self._steps


class Download:
    """A body that comes in pieces; an exception among them is raised."""

    def __init__(self, head: Answer, pieces: Iterable[bytes | Exception]) -> None:
        self.answer = head
        self._pieces = iter(pieces)

    def read(self) -> bytes:
        piece = next(self._pieces, b"")
        if isinstance(piece, Exception):
            raise piece
        return piece

    def close(self) -> None:
        pass


class AsyncScripted(Scripted):
    """The async transport."""

    async def send(self, request: Request, scope: CancelScope | None = None) -> Answer:  # type: ignore[override]
        return super().send(request, scope)

    async def open(self, request: Request, scope: CancelScope | None = None) -> Any:  # type: ignore[override]
        return AsyncDownload(super().open(request, scope))


class AsyncDownload:
    def __init__(self, download: Download) -> None:
        self._download = download
        self.answer = download.answer

    async def read(self) -> bytes:
        return self._download.read()

    def close(self) -> None:
        self._download.close()


def collect(plan: Plan[Any], transport: Scripted) -> list[ContentChunk]:
    """Drive a reader's plan to its end; give what it delivered. Sleeping takes no time."""
    from millstream.client.sync.driving import Drive

    drive = Drive(transport, plan)
    drive.scope.cancelled.wait = lambda timeout=None: False  # type: ignore[method-assign]
    pieces: list[ContentChunk] = []
    while (piece := drive.next()) is not None:
        if not isinstance(piece, Started):
            pieces.append(piece)
    return pieces
