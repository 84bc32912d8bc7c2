"""Standard output: readable on a terminal, JSON or raw bytes in a pipe."""

import enum
import os
import select
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import msgspec
import typer

from millstream.cli import terminals


class Format(enum.StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"


OutputFormat = Annotated[
    Format | None,
    typer.Option(
        "--output", "-o", help="How to write results. [default: text on a terminal, json elsewhere]"
    ),
]


class StandardOutput:
    """Writes results: as text for people, or as lines of JSON for programs."""

    def __init__(self, format: Format | None = None) -> None:
        self.is_terminal = sys.stdout.isatty()
        self.is_text = self.is_terminal if format is None else format is Format.TEXT
        self.is_file = stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
        self.colours = self.is_terminal and terminals.wants_colours()
        if self.is_terminal and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8

    def result(self, sentence: str, fields: dict[str, Any]) -> None:
        """Write a command's result: a sentence, or a line of JSON."""
        if self.is_text:
            self.line(terminals.inert_line(sentence))
        else:
            self.record(fields)

    def record(self, fields: Any) -> None:
        """Write a line of JSON."""
        self.raw(msgspec.json.encode(fields) + b"\n")

    def records(self, many: Iterable[Any]) -> None:
        """Write lines of JSON, without flushing each."""
        for fields in many:
            _write(msgspec.json.encode(fields) + b"\n")

    def line(self, text: str) -> None:
        """Write a line of text; it must be escaped already."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def text(self, text: str) -> None:
        """Write text to a terminal; it must be escaped already."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        _write(data)
        sys.stdout.buffer.flush()

    def styled(self, text: str, style: str) -> str:
        """Colour a text if the terminal supports it."""
        return terminals.styled(text, style, colours=self.colours)


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:  # with PYTHONUNBUFFERED, or when the reader closes the pipe, a write may be partial
        rest = rest[sys.stdout.buffer.write(rest) :]


def when_unread(then: Callable[[], None]) -> None:
    """Call `then` when the reader of standard output closes the pipe, even if nothing is written."""
    number = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(number).st_mode):
        return

    def wait() -> None:
        poll = select.poll()
        poll.register(number, 0)  # errors and hang-ups are always reported
        poll.poll()
        then()

    threading.Thread(target=wait, name="millstream-output", daemon=True).start()
