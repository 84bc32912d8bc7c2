"""Input: from the bytes of files and pipes to messages.

Only the current message is buffered, so the input may be larger than memory. Complete messages are
returned at once: a slow writer's lines do not wait for more input.
"""

import enum
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from millstream.cli.exits import Exit, Failure
from millstream.client.core import bodies

READ_BYTES: Final = 1024 * 1024
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
STDIN: Final = "-"
_JSON_HINT: Final = "Each line is one message: `jq -c .` writes JSON so, --text takes lines as strings"


class Form(enum.Enum):
    """How input is split into messages."""

    JSON = "json"
    TEXT = "text"
    BINARY = "binary"


class Bunch(msgspec.Struct, frozen=True):
    """Messages that arrived together, and their number of input bytes."""

    messages: list[bytes]
    bytes: int


class BadLineError(Exception):
    """A line is not a message. The messages before it are valid."""

    def __init__(self, line: int, reason: str, hint: str, before: list[bytes]) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason
        self.hint = hint
        self.before = before


def form_of(content_type: str | None) -> Form:
    """Choose the default way to split input for a content type."""
    if bodies.is_json(content_type):
        return Form.JSON
    main = (content_type or "").partition(";")[0].strip().lower()
    is_text = main.startswith("text/") or main.endswith(("json", "ndjson", "+xml", "/xml", "javascript"))
    return Form.TEXT if is_text else Form.BINARY


def messages(chunks: Iterable[bytes], form: Form, *, into_json: bool) -> Iterator[Bunch]:
    """Convert input to messages."""
    if form is Form.BINARY:
        for chunk in chunks:
            yield Bunch([chunk], len(chunk))
        return
    number = 0
    for lines in lines_of(chunks):
        size = sum(map(len, lines))
        good: list[bytes] = []
        for line in lines:
            number += 1
            if form is Form.JSON and not line.strip():
                continue
            try:
                good.append(_message(line, form, into_json=into_json))
            except UnicodeDecodeError:
                raise BadLineError(number, "is not UTF-8", "", good) from None
            except ValueError as error:
                reason = f"is not JSON ({str(error).partition(': ')[2]})"
                raise BadLineError(number, reason, _JSON_HINT, good) from None
        yield Bunch(good, size)


def _message(line: bytes, form: Form, *, into_json: bool) -> bytes:
    if form is Form.JSON:
        value = bodies.message(line.strip(), as_json=True)
        return value if into_json else line
    if not into_json:
        return line
    return bodies.to_json(line.removesuffix(b"\n").removesuffix(b"\r").decode())


def given_messages(texts: Sequence[str], form: Form, *, into_json: bool) -> list[bytes]:
    """Convert messages of the command line. A text is a line; a JSON message may have several."""
    found = []
    for text in texts:
        given = text.encode(errors="surrogateescape")
        try:
            if form is Form.TEXT:
                given += b"\n"
            found.append(given if form is Form.BINARY else _message(given, form, into_json=into_json))
        except UnicodeDecodeError:
            raise Failure(Exit.BAD_INPUT, f"--message {text!r} is not UTF-8") from None
        except ValueError as error:
            reason = str(error).partition(": ")[2]
            raise Failure(
                Exit.BAD_INPUT,
                f"--message {text!r} is not JSON ({reason})",
                "A string of JSON has quotes: '\"Hello\"'; --text makes one of each message",
            ) from None
    return found


def lines_of(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Split input into lines with their ends; lines that arrive together are returned together."""
    parts: list[bytes] = []
    waiting = 0
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        if ended:
            lines = [line + b"\n" for line in ended]
            lines[0] = b"".join((*parts, lines[0]))
            yield lines
            parts, waiting = [], 0
        if rest:
            parts.append(rest)
            waiting += len(rest)
            if waiting > MAX_LINE_BYTES:
                raise Failure(
                    Exit.BAD_INPUT,
                    f"A line is longer than {MAX_LINE_BYTES // 1024 // 1024} MiB",
                    "--binary appends content that has no lines",
                )
    if parts:
        yield [b"".join(parts)]


def blocks(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Split input into blocks of one size."""
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= size:
            yield bytes(waiting[:size])
            del waiting[:size]
    if waiting:
        yield bytes(waiting)


class Source(msgspec.Struct, frozen=True):
    """A file, or standard input."""

    name: str
    path: Path | None

    @property
    def size(self) -> int | None:
        """The size in bytes, if known."""
        return self.path.stat().st_size if self.path is not None and self.path.is_file() else None

    def chunks(self) -> Iterator[bytes]:
        """Read the input as it arrives."""
        number = os.open(self.path, os.O_RDONLY) if self.path is not None else sys.stdin.fileno()
        try:
            while chunk := os.read(number, READ_BYTES):
                yield chunk
        finally:
            if self.path is not None:
                os.close(number)


def sources(files: Sequence[Path] | None) -> list[Source]:
    """Open all inputs before anything is sent."""
    found = []
    for path in files or [Path(STDIN)]:
        if str(path) == STDIN:
            found.append(Source("standard input", None))
            continue
        try:
            os.close(os.open(path, os.O_RDONLY))
            if path.is_dir():
                raise IsADirectoryError(21, "It is a folder")
        except OSError as error:
            raise Failure(Exit.USAGE, f"{path} cannot be read: {error.strerror}", "Check its name") from None
        found.append(Source(str(path), path))
    return found
