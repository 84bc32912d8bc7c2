"""Content of streams on standard output: as lines, as JSON objects with offsets, or as it is."""

import base64
import codecs
import enum
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from millstream.cli import terminals
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import StandardOutput
from millstream.cli.positions import Located, messages_between
from millstream.protocol import json_frames


class Shape(enum.StrEnum):
    """How content is written."""

    LINES = "lines"
    JSON = "json"
    RAW = "raw"


class Writer(Protocol):
    """Writes what is read of one stream."""

    def show(self, data: bytes, before: str, after: str, time: str | None = None) -> None:
        """Write the content between two offsets, which arrived at one time."""
        ...

    def pieces(self, pieces: Sequence[Located]) -> None:
        """Write messages or lines, with the offsets after them where they are known."""
        ...

    def end(self) -> None:
        """Finish the output."""
        ...


def writer(
    output: StandardOutput, shape: Shape, *, is_json: bool, offsets: bool, times: bool = False
) -> Writer:
    """Choose how to write a stream's content."""
    if shape is Shape.JSON:
        return ObjectWriter(output, is_json=is_json, times=times)
    if shape is Shape.RAW:
        return RawWriter(output)
    if (offsets or times) and not is_json:
        option = "--offsets" if offsets else "--times"
        raise Failure(
            Exit.USAGE,
            f"{option} is for streams of JSON messages",
            f"--format json{' --times' if times else ''} has them for any stream",
        )
    return LineWriter(output, is_json=is_json, offsets=offsets, times=times)


class RawWriter:
    """Writes content as the server sends it, also to a terminal."""

    def __init__(self, output: StandardOutput) -> None:
        self._output = output

    def show(self, data: bytes, before: str, after: str, time: str | None = None) -> None:
        """Write bytes."""
        if data:
            self._output.raw(data)

    def pieces(self, pieces: Sequence[Located]) -> None:
        """Write pieces without anything between them."""
        self._output.raw(b"".join(one.content for one in pieces))

    def end(self) -> None:
        """Add nothing."""


class ObjectWriter:
    """Writes lines of JSON: a message or a piece of content, and the offset after it."""

    def __init__(self, output: StandardOutput, *, is_json: bool, times: bool) -> None:
        self._output = output
        self._is_json = is_json
        self._times = times

    def show(self, data: bytes, before: str, after: str, time: str | None = None) -> None:
        """Write the content between two offsets: each message, or all of it."""
        if data and self._is_json:
            self.pieces(messages_between(json_messages(data), before, after, time))
        elif data:
            self.pieces([Located(data, after, time)])

    def pieces(self, pieces: Sequence[Located]) -> None:
        """Write one line for each piece."""
        lines = [
            b'{"offset":%b,%b%b}\n' % (msgspec.json.encode(one.offset), self._time(one), self._value(one))
            for one in pieces
        ]
        if lines:
            self._output.raw(b"".join(lines))

    def _time(self, one: Located) -> bytes:
        return b'"time":%b,' % msgspec.json.encode(one.time) if self._times else b""

    def _value(self, one: Located) -> bytes:
        if self._is_json:
            return b'"value":' + one_line(one.content)
        try:
            return b'"text":' + msgspec.json.encode(one.content.decode())
        except UnicodeDecodeError:
            return b'"base64":"%b"' % base64.b64encode(one.content)

    def end(self) -> None:
        """Add nothing: every line is complete."""


class LineWriter:
    """Writes a stream's content: messages line by line, other content as it is."""

    def __init__(self, output: StandardOutput, *, is_json: bool, offsets: bool, times: bool) -> None:
        self._output = output
        self._is_json = is_json
        self._offsets = offsets
        self._times = times
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
        self._at_line_start = True

    def show(self, data: bytes, before: str, after: str, time: str | None = None) -> None:
        """Write the content of one response."""
        if not data:
            return
        if self._is_json and (self._offsets or self._times):
            self.pieces(messages_between(json_messages(data), before, after, time))
        elif self._is_json:
            self._messages(json_messages(data))
        elif self._output.is_terminal:
            self._text(self._decoder.decode(data))
        else:
            self._output.raw(data)

    def pieces(self, pieces: Sequence[Located]) -> None:
        """Write messages, or lines with their ends."""
        if not self._is_json:
            self.show(b"".join(one.content for one in pieces), "", "")
        else:
            self._messages(self._before(one) + one.content for one in pieces)

    def _before(self, one: Located) -> bytes:
        """Give what a message's line begins with."""
        offset = f"{one.offset or '-'}\t" if self._offsets else ""
        time = f"{one.time or '-'}\t" if self._times else ""
        return (offset + time).encode()

    def _messages(self, messages: Iterable[bytes]) -> None:
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
