"""Trims by request: what a client drops of the beginning of a stream.

        POST stream?trim=<offset>           drop what is before; `now` drops everything, `-1` nothing
        POST stream?trim-preview=<offset>   the same answer, but nothing changes

The second has a name of its own: a server that did not know a mere option of the first would drop content.

It is what retention does when it is due (`retention`): the stream begins later, at the append that holds the
offset, so that no append is cut, and what forks share stays for them. Offsets do not change, and one before
the new start is gone. Dropping what is gone already changes nothing and succeeds, so a retry is harmless.

Rules X10, X4, O4.
"""

import msgspec

from millstream.protocol.errors import MalformedError
from millstream.protocol.offsets import NOW, parse_offset
from millstream.protocol.queries import Query
from millstream.protocol.retention import CountedAppends, Trim
from millstream.protocol.streams import Stream


class TrimRequest(msgspec.Struct, frozen=True, gc=False):
    """A POST that drops what is before an offset."""

    before: int
    preview: bool = False
    """Whether it only asks where the stream would begin."""


class Trimmed(msgspec.Struct, frozen=True, gc=False):
    """Where the stream begins and ends now; `change` is what that took, if anything."""

    start: int
    tail: int
    change: Trim | None = None


class TrimBeyondTail(msgspec.Struct, frozen=True, gc=False):
    """The offset is past the stream's tail."""

    tail: int


TrimPlan = Trimmed | TrimBeyondTail


def parse_trim(query: Query, body: bytes) -> TrimRequest | None:
    """Read a POST that trims; None is another one."""
    text, previewed = query.one(b"trim"), query.one(b"trim-preview")
    given = text if text is not None else previewed
    if given is None:
        return None
    if body or query.has(b"part") or query.has(b"parts") or (text is not None and previewed is not None):
        raise MalformedError("INVALID_TRIM", "A POST with trim= has no body, and no other purpose.")
    return TrimRequest(parse_offset(given), preview=text is None)


def plan_trim(stream: Stream, request: TrimRequest, appends: CountedAppends) -> TrimPlan:
    """Decide where a stream begins after a request to trim it; a closed one can be trimmed, too."""
    before = stream.tail if request.before == NOW else request.before
    if before > stream.tail:
        return TrimBeyondTail(stream.tail)
    if before <= stream.start:
        return Trimmed(stream.start, stream.tail)
    start = before if before == stream.tail else appends.bounds(before)[0]
    if start <= stream.start:
        return Trimmed(stream.start, stream.tail)
    first_ms = appends.time_at(start) if start < stream.tail else 0
    return Trimmed(start, stream.tail, Trim(start, appends.count(start), first_ms))
