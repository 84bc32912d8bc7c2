"""Offsets of messages: a response has the offset after its last message, and this finds those in between.

On servers whose offsets count bytes, as ours do, a message and its separator move the offset by their length.
If the lengths do not add up to the difference of two offsets, the server counts otherwise, or content is
missing between them: then only the last message's offset is known.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

BEGINNING: Final = "-1"
_OFFSET: Final = re.compile(r"(\d+_)(\d+)")
_SEPARATOR_BYTES: Final = 1


class Located(msgspec.Struct, frozen=True):
    """A message or another piece of content, and the offset after it, if it is known; when it arrived."""

    content: bytes
    offset: str | None
    time: str | None = None


def messages_between(
    messages: Sequence[bytes], before: str, after: str, time: str | None = None
) -> list[Located]:
    """Locate the messages between two offsets, all of one time."""
    end = _OFFSET.fullmatch(after)
    if end is not None:
        prefix, width = end[1], len(end[2])
        begin = _OFFSET.fullmatch(before)
        start = 0 if before == BEGINNING else int(begin[2]) if begin and begin[1] == prefix else None
        lengths = [len(message) + _SEPARATOR_BYTES for message in messages]
        if start is not None and start + sum(lengths) == int(end[2]):
            located = []
            for message, length in zip(messages, lengths, strict=True):
                start += length
                located.append(Located(message, f"{prefix}{start:0{width}}", time))
            return located
    return only_last(messages, after, time)


def only_last(pieces: Sequence[bytes], after: str, time: str | None = None) -> list[Located]:
    """Give the last piece its offset, and the others none."""
    return [
        *(Located(one, None, time) for one in pieces[:-1]),
        *(Located(one, after, time) for one in pieces[-1:]),
    ]
