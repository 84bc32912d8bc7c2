"""Which bytes a reader gets: rules O3, O4, G1, G2, G7, L2."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol import json_frames
from millstream.protocol.boundaries import Index
from millstream.protocol.content import Kind
from millstream.protocol.expiry import FOREVER
from millstream.protocol.offsets import NOW, START
from millstream.protocol.reads import (
    Chunk,
    OffsetGone,
    OffsetUnaligned,
    PollOutcome,
    Span,
    plan_read,
    poll_outcome,
)
from millstream.protocol.requests import ReadRequest


class Content:
    """Stored appends, kept as plainly as possible."""

    def __init__(self, *appends: bytes) -> None:
        self.stored = b"".join(appends)
        self._ends = [0]
        for append in appends:
            self._ends.append(self._ends[-1] + len(append))

    def bounds(self, position: int) -> tuple[int, int]:
        return next(
            (start, end)
            for start, end in zip(self._ends, self._ends[1:], strict=False)
            if start <= position < end
        )

    def fetch(self, start: int, end: int) -> bytes:
        return self.stored[start:end]

    def index(self, start: int) -> Index:
        raise AssertionError("these appends are small")


def plan(
    request: ReadRequest, content: Content, kind: Kind, *, earliest: int = 0, max_bytes: int = 1000
) -> Span | OffsetGone | OffsetUnaligned:
    return plan_read(request, kind, earliest, len(content.stored), max_bytes, content)


TEN = Content(b"0123", b"456789")


@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.BINARY])
@pytest.mark.parametrize(
    ("request_", "span"),
    [
        (ReadRequest(START), (0, 10)),
        (ReadRequest(0), (0, 10)),
        (ReadRequest(3), (3, 10)),
        (ReadRequest(10), (10, 10)),
        (ReadRequest(NOW), (10, 10)),
        (ReadRequest(11), (10, 10)),
        (ReadRequest(10**20), (10, 10)),
        (ReadRequest(START, limit=4), (0, 4)),
        (ReadRequest(3, limit=100), (3, 10)),
        (ReadRequest(START, until=7), (0, 7)),
        (ReadRequest(START, until=100), (0, 10)),
        (ReadRequest(START, until=0), (0, 0)),
        (ReadRequest(5, until=5), (5, 5)),
        (ReadRequest(5, until=3), (5, 5)),
        (ReadRequest(2, until=8, limit=3), (2, 5)),
        (ReadRequest(2, until=8, limit=30), (2, 8)),
        (ReadRequest(NOW, until=8), (10, 10)),
    ],
)
def test_a_read_ends_at_the_tail_or_its_bounds(
    kind: Kind, request_: ReadRequest, span: tuple[int, int]
) -> None:
    """O3, G7."""
    assert plan(request_, TEN, kind) == Span(*span)


def test_a_chunk_is_limited_by_the_server_and_further_by_the_reader() -> None:
    """G1, G7."""
    assert plan(ReadRequest(2), TEN, Kind.TEXT, max_bytes=3) == Span(2, 5)
    assert plan(ReadRequest(2, limit=2), TEN, Kind.TEXT, max_bytes=3) == Span(2, 4)
    assert plan(ReadRequest(2, limit=9), TEN, Kind.TEXT, max_bytes=3) == Span(2, 5)


def test_bytes_that_are_no_longer_kept_are_gone() -> None:
    """O4."""
    assert plan(ReadRequest(3), TEN, Kind.TEXT, earliest=4) == OffsetGone(4)
    assert plan(ReadRequest(4), TEN, Kind.TEXT, earliest=4) == Span(4, 10)
    assert plan(ReadRequest(START), TEN, Kind.TEXT, earliest=4) == Span(4, 10)


# Two appends: {"a":1},22,"3",   and   [4,4],5,
#              0       8  11 15          15    21 23
JSON = Content(json_frames.frame(b'[{"a":1},22,"3"]'), json_frames.frame(b"[[4,4],5]"))
ENDS = [0, 8, 11, 15, 21, 23]


@pytest.mark.parametrize(
    ("request_", "span"),
    [
        (ReadRequest(START), (0, 23)),
        (ReadRequest(8), (8, 23)),
        (ReadRequest(23), (23, 23)),
        (ReadRequest(NOW), (23, 23)),
        (ReadRequest(99), (23, 23)),
        (ReadRequest(START, limit=1), (0, 8)),
        (ReadRequest(START, limit=8), (0, 8)),
        (ReadRequest(START, limit=10), (0, 8)),
        (ReadRequest(START, limit=11), (0, 11)),
        (ReadRequest(START, limit=15), (0, 15)),
        (ReadRequest(START, limit=22), (0, 15)),
        (ReadRequest(8, limit=1), (8, 11)),
        (ReadRequest(11, limit=6), (11, 15)),
        (ReadRequest(15, limit=1), (15, 21)),
        (ReadRequest(21, limit=1), (21, 23)),
        (ReadRequest(START, until=11), (0, 11)),
        (ReadRequest(START, until=15), (0, 15)),
        (ReadRequest(8, until=8), (8, 8)),
        (ReadRequest(11, until=8), (11, 11)),
        (ReadRequest(START, until=21, limit=9), (0, 8)),
    ],
)
def test_a_json_chunk_is_whole_messages_and_at_least_one(
    request_: ReadRequest, span: tuple[int, int]
) -> None:
    """G1, G4, G7."""
    assert plan(request_, JSON, Kind.JSON) == Span(*span)


@pytest.mark.parametrize("position", sorted(set(range(23)) - set(ENDS)))
def test_an_offset_inside_a_json_message_was_never_given(position: int) -> None:
    """O3, G7."""
    assert plan(ReadRequest(position), JSON, Kind.JSON) == OffsetUnaligned()
    assert plan(ReadRequest(START, until=position), JSON, Kind.JSON) == OffsetUnaligned()


@given(
    st.lists(st.lists(st.text(max_size=5) | st.integers(), min_size=1, max_size=4), max_size=6),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
)
def test_chunks_of_any_size_put_together_are_the_stream(
    batches: list[list[object]], sizes: list[int]
) -> None:
    """G1."""
    content = Content(*(json_frames.frame(json.dumps(batch).encode()) for batch in batches))
    read: list[object] = []
    position = turn = 0
    while position < len(content.stored):
        span = plan(ReadRequest(position, limit=sizes[turn % len(sizes)]), content, Kind.JSON)
        assert isinstance(span, Span)
        assert span.start == position < span.end
        read += json.loads(json_frames.wrap(content.fetch(span.start, span.end)))
        position, turn = span.end, turn + 1
    assert read == [message for batch in batches for message in batch]


@pytest.mark.parametrize(
    ("up_to_date", "closed", "at_end"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_a_reader_is_at_the_end_when_nothing_can_follow(up_to_date: bool, closed: bool, at_end: bool) -> None:
    """G1."""
    chunk = Chunk(1, b"text/plain", Kind.TEXT, FOREVER, 0, 1, b"a", up_to_date, closed)
    assert chunk.at_end is at_end


@pytest.mark.parametrize(
    ("data", "closed", "until", "outcome"),
    [
        (b"abc", False, None, PollOutcome.DATA),
        (b"abc", True, None, PollOutcome.DATA),
        (b"", True, None, PollOutcome.END),
        (b"", False, None, PollOutcome.WAIT),
        (b"", False, 11, PollOutcome.WAIT),
        (b"", False, 10, PollOutcome.DATA),
        (b"", True, 10, PollOutcome.DATA),
    ],
)
def test_a_long_poll_gives_data_first_then_the_end(
    data: bytes, closed: bool, until: int | None, outcome: PollOutcome
) -> None:
    """L2; and one that is at its bound does not wait for more (G7)."""
    chunk = Chunk(1, b"text/plain", Kind.TEXT, FOREVER, 10 - len(data), 10, data, True, closed)
    assert poll_outcome(chunk, until) is outcome
