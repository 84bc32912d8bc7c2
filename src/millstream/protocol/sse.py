r"""Server-sent events: how live reads are written, and how clients parse them.

        event: data
        data:[{"token":"Hello"}]

        event: control
        data:{"streamNextOffset":"...","streamCursor":"1234","upToDate":true,"streamLastTime":"..."}

No space follows `data:`, except before a payload line that begins with one, because parsers drop the
first space. Payload lines are split at CRLF, CR and LF, so no payload can forge an event.

PROTOCOL.md 5.8; rules L4, L5, L7, X7.
"""

import base64
import codecs
from collections.abc import Iterable, Iterator

import msgspec

from millstream.protocol import json_frames
from millstream.protocol.content import Kind
from millstream.protocol.errors import MalformedError
from millstream.protocol.offsets import format_offset
from millstream.protocol.times import format_time

KEEP_ALIVE = b": keep-alive\n\n"
CONTROL_OFFSET = b'event: control\ndata:{"streamNextOffset":"'
"""The beginning of a control event; the offset and a quotation mark follow."""


def data_event(kind: Kind, content: bytes) -> bytes:
    """Write stored content as one data event (rule L4)."""
    if kind is Kind.BINARY:
        return b"event: data\ndata:%b\n\n" % base64.b64encode(content)
    payload = json_frames.wrap(content) if kind is Kind.JSON else _valid_utf8(content)
    return b"event: data\n%b\n\n" % _data_lines(payload)


def long_data_event(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Write JSON messages without their last comma as one data event; they come in pieces, and it does, too.

    A line break at the end of a piece waits for the next one: what follows decides how it is written.
    """
    yield b"event: data\ndata:["
    held = b""
    for piece in pieces:
        text = held + piece
        size = len(text) - (2 if text.endswith(b"\r\n") else text.endswith((b"\r", b"\n")))
        text, held = text[:size], text[size:]
        yield _break_lines(text)
    yield b"]\n\n"


def control_event(
    next_offset: int, cursor: int | None, up_to_date: bool, closed: bool, last_ms: int = 0
) -> bytes:
    """Write where the reader is now; at the end of a closed stream there is no cursor (rule L5).

    The last append before that place arrived at `last_ms` (rule X7).
    """
    last_time = b',"streamLastTime":"%b"' % format_time(last_ms) if last_ms else b""
    if closed:
        return b'event: control\ndata:{"streamNextOffset":"%b","upToDate":true,"streamClosed":true%b}\n\n' % (
            format_offset(next_offset),
            last_time,
        )
    return b'event: control\ndata:{"streamNextOffset":"%b","streamCursor":"%d"%b%b}\n\n' % (
        format_offset(next_offset),
        cursor or 0,
        b',"upToDate":true' if up_to_date else b"",
        last_time,
    )


def event_content(kind: Kind, content: bytes, *, at_end: bool) -> bytes:
    """Cut what one data event may carry: of text, whole characters only (rule L7).

    An append may end inside a UTF-8 character. Its rest comes with a later append, so it is held back
    until then; at the end of a closed stream nothing comes, and all is sent.
    """
    return content if at_end or kind is not Kind.TEXT else content[: whole_characters(content)]


def whole_characters(content: bytes) -> int:
    """Count the bytes before a UTF-8 character that is cut off at the end of the content."""
    for back in range(1, min(4, len(content) + 1)):
        byte = content[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            never = byte < 0xC2 or byte > 0xF4  # no character begins with these bytes
            needed = 0 if never else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(content) - back if back < needed else len(content)
    return len(content)


def _valid_utf8(content: bytes) -> bytes:
    try:
        content.decode()
    except UnicodeDecodeError:
        return content.decode(errors="replace").encode()
    return content


def _data_lines(payload: bytes) -> bytes:
    return _break_lines(b"\n" + payload)[1:]


def _break_lines(text: bytes) -> bytes:
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text.replace(b"\n ", b"\n  ").replace(b"\n", b"\ndata:")


class Event(msgspec.Struct, frozen=True):
    """One event as it was received."""

    type: str
    data: str
    id: str = ""
    """The last id that was received."""


class Control(msgspec.Struct, frozen=True, rename="camel"):
    """The content of a control event."""

    stream_next_offset: str
    stream_cursor: str | None = None
    up_to_date: bool = False
    stream_closed: bool = False
    stream_last_time: str | None = None


_control = msgspec.json.Decoder(Control)


def parse_control(data: str) -> Control:
    """Read a control event's JSON; at the end of a closed stream a reader is up to date."""
    try:
        control = _control.decode(data)
    except msgspec.MsgspecError as error:
        raise MalformedError(
            "INVALID_CONTROL_EVENT", f"A control event could not be read: {error}."
        ) from None
    return msgspec.structs.replace(control, up_to_date=True) if control.stream_closed else control


def decode_base64(data: str) -> bytes:
    """Decode the payload of a binary stream's data event; line breaks in it are ignored."""
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except ValueError as error:
        raise MalformedError("INVALID_BASE64", f"A data event is not valid base64: {error}.") from None


class Parser:
    """Parse bytes that arrive in pieces of any size into events.

    The result does not depend on how the bytes are cut, nor on the line endings.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._unfinished_line: list[str] = []
        self._after_cr = False
        self._type = ""
        self._id = ""
        self._data: list[str] = []

    def feed(self, received: bytes) -> Iterator[Event]:
        """Parse more bytes, and yield the events that they complete."""
        for line in self._lines(self._decoder.decode(received)):
            event = self._take(line)
            if event is not None:
                yield event

    def _lines(self, text: str) -> Iterator[str]:
        if self._after_cr and text:
            self._after_cr = False
            text = text.removeprefix("\n")  # the second half of a CRLF
        self._after_cr = text.endswith("\r") or (self._after_cr and not text)
        *complete, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in complete:
            yield "".join([*self._unfinished_line, line])
            self._unfinished_line.clear()
        if rest:
            self._unfinished_line.append(rest)

    def _take(self, line: str) -> Event | None:
        if not line:
            event = Event(self._type or "message", "\n".join(self._data), self._id) if self._data else None
            self._type = ""
            self._data.clear()
            return event
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._type = value
        elif field == "data":
            self._data.append(value)
        elif field == "id" and "\0" not in value:
            self._id = value
        return None
