"""Standard output: for a person when it is a terminal, for a program when it is not."""

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
    """Where results go, and how they look there."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self.is_file = stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
        self.colours = self.is_terminal and terminals.wants_colours()
        if self.is_terminal and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8

    def result(self, sentence: str, fields: dict[str, Any]) -> None:
        """Tell what came of a command: a sentence, or a line of JSON."""
        if self.is_terminal:
            self.line(terminals.inert_line(sentence))
        else:
            self.record(fields)

    def record(self, fields: Any) -> None:
        """Write a line of JSON."""
        self.raw(msgspec.json.encode(fields) + b"\n")

    def records(self, many: Iterable[Any]) -> None:
        """Write lines of JSON, without haste."""
        for fields in many:
            _write(msgspec.json.encode(fields) + b"\n")

    def line(self, text: str) -> None:
        """Write a line for a person; it must be harmless already."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def text(self, text: str) -> None:
        """Write text for a person; it must be harmless already."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        _write(data)
        sys.stdout.buffer.flush()

    def styled(self, text: str, style: str) -> str:
        """Colour a text if this is a terminal that likes it."""
        return terminals.styled(text, style, colours=self.colours)


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:  # with PYTHONUNBUFFERED a write may take only some, as one does whose reader leaves
        rest = rest[sys.stdout.buffer.write(rest) :]


class Content:
    """Shows a stream's content as it comes: messages line by line, other content as it is."""

    def __init__(self, output: StandardOutput, *, is_json: bool) -> None:
        self._output = output
        self._is_json = is_json
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
        self._at_line_start = True

    def show(self, data: bytes) -> None:
        """Show what one answer held."""
        if not data:
            return
        if self._is_json:
            self.messages(json_messages(data))
        elif self._output.is_terminal:
            self._text(self._decoder.decode(data))
        else:
            self._output.raw(data)

    def messages(self, messages: Iterable[bytes]) -> None:
        """Show JSON messages, one on a line."""
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
        """Leave a terminal's cursor at the beginning of a line."""
        if not self._is_json and self._output.is_terminal:
            self._text(self._decoder.decode(b"", True))
            if not self._at_line_start:
                self._output.line("")

    def _text(self, text: str) -> None:
        if text:
            self._output.text(terminals.inert(text.replace("\r\n", "\n")))
            self._at_line_start = text.endswith("\n")


def json_messages(data: bytes) -> list[bytes]:
    """Cut what a server answered into messages."""
    try:
        return json_frames.split(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Failure(
            Exit.FAILED, f"The stream's content is not JSON ({error})", "Is this a server of durable streams?"
        ) from None


def one_line(message: bytes) -> bytes:
    """Put a JSON message on one line. A line break in JSON is never part of a value, only between them."""
    if b"\n" in message or b"\r" in message:
        return message.replace(b"\r", b" ").replace(b"\n", b" ")
    return message


def when_unread(then: Callable[[], None]) -> None:
    """Call `then` once nobody reads our standard output any more, even while there is nothing to write."""
    number = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(number).st_mode):
        return

    def wait() -> None:
        poll = select.poll()
        poll.register(number, 0)  # what is reported without asking: errors and hang-ups
        poll.poll()
        then()

    threading.Thread(target=wait, name="millstream-output", daemon=True).start()
