"""The exact exchanges of a test, as readable text.

A failing check is a claim about somebody else's server, and the transcript is the evidence: it shows
both messages in full. Only long bodies are shortened, and it says so.
"""

from __future__ import annotations

from collections import deque

from millstream_conformance.readable import readable
from millstream_conformance.server.wire import Answer, Headers, Request

__all__ = ["Transcript", "readable", "render_answer", "render_request"]

MAX_EXCHANGES = 12
MAX_LINES = 40


class Transcript:
    """The most recent exchanges of one test, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[str] = deque(maxlen=MAX_EXCHANGES)
        self._count = 0

    def add(self, request: Request, host: str, answer: Answer | None, note: str = "") -> None:
        """Record a request with its answer, or with a note why there is none."""
        self._count += 1
        received = render_answer(answer) if answer else ""
        self._entries.append(
            "\n".join(part for part in (render_request(request, host), received, note) if part)
        )

    def note(self, text: str) -> None:
        """Record something that is not one exchange, such as the events of a live stream."""
        self._entries.append(text)

    def clear(self) -> None:
        """Drop all exchanges: a law starts its next example."""
        self._entries.clear()
        self._count = 0

    def render(self) -> str:
        """All kept exchanges as one text."""
        omitted = self._count - len(self._entries)
        opening = [f"({omitted} earlier exchanges left out)"] if omitted > 0 else []
        return "\n\n".join([*opening, *self._entries])


def render_request(request: Request, host: str) -> str:
    """A request as sent, each line marked `> `."""
    head, _, body = request.encode(host).partition(b"\r\n\r\n")
    return _marked("> ", head.decode("latin-1").split("\r\n"), body)


def render_answer(answer: Answer) -> str:
    """An answer as received, each line marked `< `, with the time it took."""
    lines = [f"HTTP/1.1 {answer.status} {answer.reason}   ({answer.elapsed_s * 1000:.0f} ms)"]
    return _marked("< ", lines + _lines(answer.headers), answer.body)


def _lines(headers: Headers) -> list[str]:
    return [f"{name}: {value}" for name, value in headers]


def _marked(mark: str, head: list[str], body: bytes) -> str:
    shown = head if len(head) <= MAX_LINES else [*head[:MAX_LINES], f"({len(head) - MAX_LINES} more fields)"]
    lines = [*shown, *(["", *readable(body).split("\n")] if body else [])]
    return "\n".join(f"{mark}{line}".rstrip() for line in lines)
