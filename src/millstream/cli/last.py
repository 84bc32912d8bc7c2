"""The last messages or lines of a stream, where the server does not find them by itself.

Our server finds the last messages of a JSON stream, and the last appends of others. Lines are only known
here. They are looked for in a few times as many appends, because lines are also written in pieces; of short
pieces there are fewer lines. Other servers find nothing, so there the stream is read from the beginning.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from millstream.cli import targets
from millstream.cli.contents import json_messages
from millstream.cli.positions import Located, messages_between
from millstream.client.core.models import ByteChunk
from millstream.client.sync.streams import stream as read_stream

EXTENSION: Final = "last"
"""What a server says that finds the last messages and appends."""

_APPENDS_A_LINE: Final = 4
_MOST_APPENDS: Final = 100_000


class Ending(msgspec.Struct, frozen=True):
    """The last messages or lines, and the offset after them."""

    pieces: list[Located]
    offset: str
    stream_closed: bool


def origin(count: int, *, lines: bool) -> str:
    """Give the offset of the last messages, or of appends that hold the last lines."""
    return f"{EXTENSION}:{max(count, min(_MOST_APPENDS, _APPENDS_A_LINE * (count + 4))) if lines else count}"


def find(server: targets.Server, url: str, start: str, count: int, *, is_json: bool) -> Ending:
    """Find the last messages of a JSON stream, the last lines of another, in what follows an offset."""
    with read_stream(url, offset=start, live=False, headers=server.headers(url)) as response:
        chunks = (chunk for chunk in response.iter_byte_chunks() if chunk.data)
        pieces = _messages(chunks, response.start_offset) if is_json else _lines(chunks)
        kept: deque[Located] = deque(pieces, maxlen=count)
        return Ending(list(kept), response.offset, response.stream_closed)


def _messages(chunks: Iterable[ByteChunk], start: str) -> Iterator[Located]:
    for chunk in chunks:
        yield from messages_between(json_messages(chunk.data), start, chunk.offset)
        start = chunk.offset


def _lines(chunks: Iterable[ByteChunk]) -> Iterator[Located]:
    """Split into lines with their ends."""
    parts: list[bytes] = []
    end: str | None = None
    for chunk in chunks:
        *ended, rest = chunk.data.split(b"\n")
        end = chunk.offset
        for number, line in enumerate(ended, 1):
            at_end = number == len(ended) and not rest
            yield Located(b"".join((*parts, line, b"\n")), end if at_end else None)
            parts.clear()
        parts.append(rest)
    if rest := b"".join(parts):
        yield Located(rest, end)
