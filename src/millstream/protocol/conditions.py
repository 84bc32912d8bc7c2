"""Conditions: an append that happens only where its writer believes the stream to end.

        read to the tail T  ->  decide  ->  POST, Stream-Expected-Offset: T
                                              tail is T       done: nobody wrote in between
                                              tail is not T   409, with the tail: read on and decide again

So any number of writers can decide on the same stream, and exactly one of them wins each offset. A
condition is the last check of all (rule A2): a closed stream says so first, and a producer's duplicate
succeeds whatever was expected, so an append whose answer was lost can be repeated with its stamp.
`If-Match` with the entity tag of the tail, which HEAD gives, means the same in HTTP's own words.

RFC 9110, 13.1.1; rule X6.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from millstream.protocol import headers
from millstream.protocol.caching import tail_tag
from millstream.protocol.errors import MalformedError
from millstream.protocol.offsets import parse_offset

IF_MATCH: Final = b"if-match"

_TAG = rb'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_ONE_TAG = re.compile(_TAG)
_TAGS = re.compile(rb"(?:[ \t,]*" + _TAG + rb")+[ \t,]*")


class Condition(msgspec.Struct, frozen=True, gc=False):
    """Where a writer expects the tail: at an offset, at one that has one of these tags, or both."""

    offset: int | None
    tags: tuple[bytes, ...] | None


class OffsetConflict(msgspec.Struct, frozen=True, gc=False):
    """The stream does not end where `Stream-Expected-Offset` says."""

    expected: int
    tail: int


class TagConflict(msgspec.Struct, frozen=True, gc=False):
    """The tail has none of the tags in `If-Match`."""

    tail: int
    tag: bytes


def parse_condition(fields: Mapping[bytes, bytes]) -> Condition | None:
    """Read both headers. `If-Match: *` asks for a stream that exists, as every POST does anyway."""
    expected, if_match = fields.get(headers.STREAM_EXPECTED_OFFSET), fields.get(IF_MATCH)
    offset = _parse_expected(expected) if expected is not None else None
    tags = _parse_tags(if_match) if if_match is not None else None
    return Condition(offset, tags) if offset is not None or tags is not None else None


def refuse(condition: Condition, incarnation: bytes, tail: int) -> OffsetConflict | TagConflict | None:
    """Compare a condition with the tail of a stream that is open; None if it holds."""
    if condition.offset is not None and condition.offset != tail:
        return OffsetConflict(condition.offset, tail)
    if condition.tags is not None:
        tag = tail_tag(incarnation, tail, closed=False)
        if tag not in condition.tags:
            return TagConflict(tail, tag)
    return None


def _parse_expected(text: bytes) -> int:
    offset = parse_offset(text)
    if offset < 0:
        raise MalformedError(
            "INVALID_OFFSET", "Stream-Expected-Offset is an offset that this server gave, not -1 or now."
        )
    return offset


def _parse_tags(text: bytes) -> tuple[bytes, ...] | None:
    """List the tags that can match: weak ones never do, because `If-Match` compares strongly."""
    if text.strip() == b"*":
        return None
    if _TAGS.fullmatch(text) is None:
        raise MalformedError("INVALID_IF_MATCH", "If-Match is * or a list of entity tags in double quotes.")
    return tuple(tag for tag in _ONE_TAG.findall(text) if not tag.startswith(b"W/"))
