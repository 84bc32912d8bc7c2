"""Standard output: readable on a terminal, JSON or raw bytes in a pipe."""

import codecs
import os
import select
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from millstream.cli import terminals
from millstream.cli.exits import Exit, Failure
from millstream.protocol import json_frames


class StandardOutput:
    """Writes results: formatted on a terminal, machine-readable elsewhere."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self.is_file = stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
        self.colours = self.is_terminal and terminals.wants_colours()
        if self.is_terminal and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8

    def result(self, sentence: str, fields: dict[str, Any]) -> None:
        """Write a command's result: a sentence on a terminal, else a line of JSON."""
        if self.is_terminal:
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
        """Write a line to a terminal; it must be escaped already."""
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


class ContentWriter:
    """Writes a stream's content: messages line by line, other content as it is."""

    def __init__(self, output: StandardOutput, *, is_json: bool) -> None:
        self._output = output
        self._is_json = is_json
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
        self._at_line_start = True

    def show(self, data: bytes) -> None:
        """Write the content of one response."""
        if not data:
            return
        if self._is_json:
            self.messages(json_messages(data))
        elif self._output.is_terminal:
            self._text(self._decoder.decode(data))
        else:
            self._output.raw(data)

    def messages(self, messages: Iterable[bytes]) -> None:
        """Write JSON messages, one per line."""
        lines = [one_line(message) for message in messages]
        if not lines:
            return
        if not self._output.is_terminal:
            self._output.raw(b"\n".join(lines) + b"\n")
            return
        texts = [terminals.inert_line(line.decode(errors="backslashreplace")) for line in lines]
        if self._output.colours:
            texts = [terminals.coloured_json(text) for text in texts]
        self._output.line("\n".join(texts))

    def end(self) -> None:
        """Move a terminal's cursor to the beginning of a line."""
        if not self._is_json and self._output.is_terminal:
            self._text(self._decoder.decode(b"", True))
            if not self._at_line_start:
                self._output.line("")

    def _text(self, text: str) -> None:
        if text:
            self._output.text(terminals.inert(text.replace("\r\n", "\n")))
            self._at_line_start = text.endswith("\n")


def json_messages(data: bytes) -> list[bytes]:
    """Split a response into messages."""
    try:
        return json_frames.split(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Failure(
            Exit.FAILED, f"The stream's content is not JSON ({error})", "Is this a server of durable streams?"
        ) from None


def one_line(message: bytes) -> bytes:
    """Put a JSON message on one line. In JSON, a raw line break is never part of a value."""
    if b"\n" in message or b"\r" in message:
        return message.replace(b"\r", b" ").replace(b"\n", b" ")
    return message


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
