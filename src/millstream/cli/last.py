"""The last messages of a stream, without reading all of it.

On a server with bounded reads, a HEAD returns where a GET would end, so a long stream can be traversed in
large steps without its content. Then the last step is read; if that holds too few messages, the last two,
four, ... On other servers the stream is read from the beginning.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from millstream.cli import targets
from millstream.cli.contents import json_messages
from millstream.cli.positions import BEGINNING, Located, messages_between
from millstream.client.core.models import ByteChunk
from millstream.client.sync.streams import DurableStream
from millstream.client.sync.streams import stream as read_stream

STEP_BYTES: Final = 1024 * 1024
MAX_LINE_STEPS: Final = 64
"""Content without line breaks is not searched further back than this."""


class Ending(msgspec.Struct, frozen=True):
    """The last messages or lines, and the offset after them."""

    pieces: list[Located]
    offset: str
    stream_closed: bool


def find(server: targets.Server, stream: DurableStream, count: int, *, is_json: bool) -> Ending:
    """Find the last messages of a JSON stream, the last lines of another."""
    steps = list(_steps(server, stream.url, stream.head().offset or BEGINNING))
    back = 1
    while True:
        start = steps[max(0, len(steps) - back)]
        ending, is_enough = _read(server, stream.url, start, count, is_json=is_json)
        if is_enough or start == BEGINNING or (back >= MAX_LINE_STEPS and not is_json):
            return ending
        back *= 2


def _steps(server: targets.Server, url: str, tail: str) -> Iterator[str]:
    """Step from the beginning to the tail; return where each step begins."""
    at = BEGINNING
    while True:
        yield at
        params = {"offset": at, "limit": str(STEP_BYTES)}
        following = DurableStream(url, headers=server.headers(url), params=params).head().offset
        if following is None or following >= tail or following == at:
            return
        at = following


def _read(server: targets.Server, url: str, start: str, count: int, *, is_json: bool) -> tuple[Ending, bool]:
    with read_stream(url, offset=start, live=False, headers=server.headers(url)) as response:
        chunks = (chunk for chunk in response.iter_byte_chunks() if chunk.data)
        pieces = _messages(chunks, start) if is_json else _lines(chunks, is_whole=start == BEGINNING)
        kept: deque[Located] = deque(maxlen=count)
        seen = 0
        for piece in pieces:
            kept.append(piece)
            seen += 1
        return Ending(list(kept), response.offset, response.stream_closed), seen >= count


def _messages(chunks: Iterable[ByteChunk], start: str) -> Iterator[Located]:
    for chunk in chunks:
        yield from messages_between(json_messages(chunk.data), start, chunk.offset)
        start = chunk.offset


def _lines(chunks: Iterable[ByteChunk], *, is_whole: bool) -> Iterator[Located]:
    """Split into lines with their ends; an incomplete first line is dropped."""
    parts: list[bytes] = []
    end: str | None = None
    for chunk in chunks:
        *ended, rest = chunk.data.split(b"\n")
        end = chunk.offset
        for number, line in enumerate(ended, 1):
            if is_whole:
                at_end = number == len(ended) and not rest
                yield Located(b"".join((*parts, line, b"\n")), end if at_end else None)
            is_whole = True
            parts.clear()
        parts.append(rest)
    rest = b"".join(parts)
    if rest and is_whole:
        yield Located(rest, end)
