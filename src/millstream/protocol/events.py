r"""Many streams on one connection: what is asked for, and what its events say.

        GET /__ds/events?stream=/chat/1@now&stream=/chat/2@last:20&glob=/alerts/**

        id: /chat/2@0000000000000000_0000000000000009
        event: data
        data:[{"n":1}]

        id: /chat/2@0000000000000000_0000000000000009
        event: control
        data:{"streamPath":"/chat/2","streamNextOffset":"...","streamCursor":"1234","upToDate":true}

Each stream joins with a control event that also has its content type, before any of its data. Data and
control events are those of a single stream (`sse`) with two additions: the `id`, which is what `stream` takes
in the next request, and the path. A stream that cannot be read has an `error` event; the others go on.

A reader of globs needs one thing more to go on after a cut: of which streams it was not told. An event of
the type `globs` gives that as the value of `from` in the next request:

        now             streams begin at their tails
        -1              streams begin at their first byte
        now:812         streams that were created after the one with the number 812 begin at their first byte,
                        others at their tails: those that the reader knows are named in the request
        -1:812:1:/c/7   the same, but older ones begin at their first byte, too, unless the reader was told
                        of them: of all that the first glob matches, and of the second's up to /c/7

Streams are numbered in the order in which they were created.

Rules X9, L4, L5.
"""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import msgspec

from millstream.protocol import origins, sse
from millstream.protocol.content import Kind
from millstream.protocol.errors import MalformedError, TooLargeError
from millstream.protocol.globs import MAX_GLOB_BYTES, path_matches
from millstream.protocol.headers import STREAM_EARLIEST_OFFSET
from millstream.protocol.http import Reply
from millstream.protocol.names import STREAM_ROOTS, check_name, is_reserved
from millstream.protocol.offsets import NOW, START, format_offset, parse_offset
from millstream.protocol.queries import each_parameter
from millstream.protocol.reads import Chunk

MAX_STREAMS: Final = 1000
"""Most streams on one connection, named and found by globs together: so that a reader can name them all."""

MAX_GLOBS: Final = 16
MAX_PARAMETER_BYTES: Final = 256 * 1024

_CONTROL: Final = b"event: control\ndata:{"
_MAX_DIGITS: Final = 18


class Origin(msgspec.Struct, frozen=True):
    """Where the streams of globs begin, those that the request does not name."""

    offset: int = NOW
    newest: int | None = None
    """The newest stream that the reader has been told of; later ones begin at their first byte."""
    told_globs: int = 0
    """Of older streams, the reader has been told of those that so many of the first globs match ..."""
    told: str = ""
    """... and of those that the next one matches, up to this path."""

    def begins(self, name: str, number: int, glob: int) -> int:
        """Decide where a stream begins; `glob` is the first one that matches it."""
        if self.is_new(number):
            return START
        return NOW if (glob, name) <= (self.told_globs, self.told) else self.offset

    def is_new(self, number: int) -> bool:
        """Tell whether a stream was created after all that the reader has been told of."""
        return self.newest is not None and number > self.newest

    def __str__(self) -> str:
        if self.newest is None:
            return "now" if self.offset == NOW else "-1"
        return (
            f"now:{self.newest}" if self.offset == NOW else f"-1:{self.newest}:{self.told_globs}:{self.told}"
        )


class EventsRequest(msgspec.Struct, frozen=True):
    """Which streams, from where, and which globs."""

    streams: dict[str, int | origins.Origin]
    globs: tuple[str, ...] = ()
    origin: Origin = Origin()

    def first_glob(self, name: str) -> int | None:
        """Give the place of the first glob that matches a path."""
        return next((place for place, glob in enumerate(self.globs) if path_matches(glob, name)), None)


# -- The request ---------------------------------------------------------------------------------


def parse_events(raw: bytes) -> EventsRequest:
    """Read the parameters: of the URL, of a form in the body, or of both."""
    if len(raw) > MAX_PARAMETER_BYTES:
        raise TooLargeError(
            "PARAMETERS_TOO_LONG", f"The parameters are at most {MAX_PARAMETER_BYTES} bytes long."
        )
    streams: dict[str, int | origins.Origin] = {}
    globs: dict[str, None] = {}
    origin: Origin | None = None
    for name, value in each_parameter(raw):
        if name == b"stream":
            path, offset = _parse_stream(value)
            if path in streams:
                raise MalformedError("REPEATED_STREAM", "A stream may be named once.")
            streams[path] = offset
            if len(streams) > MAX_STREAMS:
                raise MalformedError(
                    "TOO_MANY_STREAMS", f"A connection follows at most {MAX_STREAMS} streams."
                )
        elif name == b"glob":
            globs[_parse_glob(value)] = None
            if len(globs) > MAX_GLOBS:
                raise MalformedError("TOO_MANY_GLOBS", f"A connection has at most {MAX_GLOBS} globs.")
        elif name == b"from":
            if origin is not None:
                raise MalformedError("REPEATED_PARAMETER", "The parameter from may be given once.")
            origin = _parse_origin(value)
    if not streams and not globs:
        raise MalformedError(
            "NOTHING_TO_FOLLOW",
            "Say what to follow: stream=/chat/1@now, or glob=/chat/*, or several of them.",
        )
    return EventsRequest(streams, tuple(globs), origin or Origin())


def _parse_stream(value: bytes) -> tuple[str, int | origins.Origin]:
    path, found, offset = value.rpartition(b"@")
    if not found:
        raise MalformedError("MISSING_OFFSET", "A stream is named with its offset: stream=/chat/1@-1.")
    name = check_name(path)
    if is_reserved(name, STREAM_ROOTS):
        raise MalformedError(
            "INVALID_NAME", "Paths below /__ds/ are the server's own; no stream can be there."
        )
    return name, origins.parse_origin(offset) if origins.is_origin(offset) else parse_offset(offset)


def _parse_glob(value: bytes) -> str:
    if len(value) > MAX_GLOB_BYTES:
        raise MalformedError("GLOB_TOO_LONG", f"glob is at most {MAX_GLOB_BYTES} bytes long.")
    glob = _decode(value, "glob")
    if not glob:
        raise MalformedError("EMPTY_GLOB", "glob is a pattern such as /chat/*; ** matches every path.")
    return glob if glob.startswith("/") else "/" + glob


def _parse_origin(value: bytes) -> Origin:
    match value.split(b":", 3):
        case [b"now"]:
            return Origin(NOW)
        case [b"-1"]:
            return Origin(START)
        case [b"now", number] if _is_number(number):
            return Origin(NOW, int(number))
        case [b"-1", number, globs, told] if _is_number(number) and _is_number(globs):
            return Origin(START, int(number), int(globs), _decode(told, "from"))
    raise MalformedError("INVALID_FROM", "from is now, -1, or a value of an event of the type globs.")


def _is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) <= _MAX_DIGITS


def _decode(value: bytes, parameter: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MalformedError("INVALID_PARAMETER", f"{parameter} must be UTF-8.") from None


def literal_prefix(glob: str) -> str:
    """Give what every path that a glob matches begins with."""
    literal, star, _ = glob.partition("*")
    # A ** also matches no segment, so the slash before it need not be there.
    return literal[:-1] if star and literal.endswith("/") and len(literal) > 1 else literal


# -- The events ----------------------------------------------------------------------------------


def event_id(name: str, offset: int) -> bytes:
    """Write the line with a stream's path and offset, as the parameter `stream` takes them."""
    return b"id: %b@%b\n" % (quote(name).encode(), format_offset(offset))


def tagged(name: str, offset: int, data: bytes, control: bytes) -> bytes:
    """Add path and offset to the events of one stream; there may be no data event."""
    id = event_id(name, offset)
    path = _CONTROL + b'"streamPath":%b,' % msgspec.json.encode(name)
    control = b"%b%b%b" % (id, path, control.removeprefix(_CONTROL))
    return b"%b%b%b" % (id, data, control) if data else control


def joined(name: str, chunk: Chunk) -> bytes:
    """Write that a stream is followed from here on, before any of its data."""
    is_at_tail = chunk.start == chunk.end and chunk.up_to_date
    about: dict[str, Any] = {
        "streamNextOffset": format_offset(chunk.start).decode(),
        "streamContentType": chunk.content_type.decode("latin-1"),
    }
    if chunk.kind is Kind.BINARY:
        about["streamDataEncoding"] = "base64"
    if is_at_tail:
        about["upToDate"] = True
    if is_at_tail and chunk.closed:
        about["streamClosed"] = True
    return _control(name, chunk.start, about)


def deleted(name: str, offset: int) -> bytes:
    """Write that a stream is gone."""
    about = {"streamNextOffset": format_offset(offset).decode(), "streamDeleted": True}
    return _control(name, offset, about)


def failed(refusal: Reply, name: str | None = None) -> bytes:
    """Write why a stream cannot be followed, or, without a name, why the connection ends."""
    assert isinstance(refusal.body, bytes)  # a refusal is short
    about = {"streamPath": name} if name is not None else {}
    about |= msgspec.json.decode(refusal.body)
    earliest = dict(refusal.headers).get(STREAM_EARLIEST_OFFSET)
    if earliest is not None:
        about["streamEarliestOffset"] = earliest.decode()
    return b"event: error\ndata:%b\n\n" % msgspec.json.encode(about)


def told(origin: Origin, *, up_to_date: bool) -> bytes:
    """Write from where a reader of globs goes on: with the streams that it was not told of."""
    about: dict[str, Any] = {"from": str(origin)}
    if up_to_date:
        about["upToDate"] = True
    return b"event: globs\ndata:%b\n\n" % msgspec.json.encode(about)


def _control(name: str, offset: int, about: dict[str, Any]) -> bytes:
    control = b"%b%b\n\n" % (_CONTROL, msgspec.json.encode(about)[1:])
    return tagged(name, offset, b"", control)


# -- What clients read ---------------------------------------------------------------------------


class Control(sse.Control, frozen=True, rename="camel"):
    """The content of a control event about one of many streams."""

    stream_path: str = ""
    stream_content_type: str | None = None
    """Given when the stream joins."""
    stream_data_encoding: str | None = None
    stream_deleted: bool = False


class Failed(msgspec.Struct, frozen=True, rename="camel"):
    """The content of an error event."""

    status: int
    code: str = ""
    detail: str = ""
    stream_path: str | None = None
    stream_earliest_offset: str | None = None


class Told(msgspec.Struct, frozen=True, rename="camel"):
    """The content of an event about globs."""

    origin: str = msgspec.field(name="from")
    up_to_date: bool = False


def _parser(kind: type, what: str) -> Callable[[str], Any]:
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)

    def parse(data: str) -> Any:
        try:
            return decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise MalformedError("INVALID_EVENT", f"{what} could not be read: {error}.") from None

    return parse


parse_control: Final[Callable[[str], Control]] = _parser(Control, "A control event")
parse_failed: Final[Callable[[str], Failed]] = _parser(Failed, "An error event")
parse_told: Final[Callable[[str], Told]] = _parser(Told, "An event about globs")
