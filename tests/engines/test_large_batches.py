"""JSON appends so large that their message boundaries are found in several steps: rules F1, G1, G7, O3."""

import json
from itertools import accumulate

import pytest

from engines.driving import JSON, Engine, created
from millstream.protocol.errors import MalformedError
from millstream.protocol.forks import ForkUnaligned, SubOffsetOvershoot
from millstream.protocol.json_frames import wrap
from millstream.protocol.reads import Chunk, OffsetUnaligned
from millstream.protocol.streams import NotFound

SIZES = [5, 70_000, 3, 3, 40_000, 200, *[50] * 3_000, 100_000, 7]
MESSAGES = ["x" * size for size in SIZES]
ENDS = [0, *accumulate(len(json.dumps(message)) + 1 for message in MESSAGES)]


@pytest.fixture(params=["fresh", "checkpointed"])
def batch(request: pytest.FixtureRequest, engine: Engine) -> Engine:
    """An engine with the stream /s: all messages in one append."""
    engine.create("/s", content_type=JSON)
    engine.append("/s", json.dumps(MESSAGES, separators=(",", ":")).encode(), content_type=JSON)
    if request.param == "checkpointed":
        engine.checkpoint()
    return engine


@pytest.mark.parametrize("max_bytes", [1, 30_000, 2**18])
def test_chunks_put_together_are_the_batch(batch: Engine, max_bytes: int) -> None:
    """G1: each is whole messages, as many as fit, and at least one."""
    read: list[str] = []
    position = 0
    while position < ENDS[-1]:
        max_bytes = max_bytes if len(read) < 10 or max_bytes > 1 else 20_000  # not each of thousands
        chunk = batch.chunk("/s", position, max_bytes=max_bytes)
        fitting = [end for end in ENDS if position < end <= position + max_bytes]
        following = next(end for end in ENDS if end > position)
        assert (chunk.start, chunk.end) == (position, fitting[-1] if fitting else following)
        read += json.loads(wrap(chunk.data))
        position = chunk.end
    assert read == MESSAGES


def test_an_offset_inside_of_a_message_is_refused_wherever_it_is(batch: Engine) -> None:
    """O3, G7: also when the last one was asked for first."""
    for end in reversed(ENDS[1:-1:97]):
        assert isinstance(batch.read("/s", end, max_bytes=1), Chunk)
        assert batch.read("/s", end - 1) == OffsetUnaligned()
        assert batch.read("/s", until=end - 1) == OffsetUnaligned()
        assert batch.chunk("/s", until=end).end == end


@pytest.mark.parametrize("number", [0, 1, 5, 2_500, len(MESSAGES) - 1])
def test_a_fork_begins_after_so_many_messages(batch: Engine, number: int) -> None:
    """F1: from each boundary; a fork of a fork counts no further than its source goes."""
    rest = len(MESSAGES) - number
    for name, count in (("/one", 1), ("/most", rest - 1), ("/all", rest)):
        if count:
            assert created(batch.fork(name, "/s", ENDS[number], count)).base == ENDS[number + count]
    assert batch.fork("/over", "/s", ENDS[number], rest + 1) == SubOffsetOvershoot(rest)
    if number:
        assert batch.fork("/inside", "/s", ENDS[number] - 1, 1) == ForkUnaligned()
    assert batch.fork("/again", "/one", 0, number + 2) == SubOffsetOvershoot(number + 1)
    assert created(batch.fork("/again", "/one", 0, number + 1)).base == ENDS[number + 1]
    assert batch.chunk("/again", ENDS[number]).data == json.dumps(MESSAGES[number]).encode() + b","


def test_a_fork_with_a_body_that_is_no_json_is_refused(batch: Engine) -> None:
    """A3, F1: at once, or when its beginning is found."""
    try:
        decision = batch.fork("/fork", "/s", 0, len(MESSAGES), body=b"{")
    except MalformedError as error:
        decision = error
    assert isinstance(decision, MalformedError)
    assert decision.code == "INVALID_JSON"
    assert batch.head("/fork") == NotFound("/fork")
