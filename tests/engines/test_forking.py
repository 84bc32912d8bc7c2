"""Forks and deletion: rules F1 to F3, R2."""

import json
from itertools import pairwise

import pytest

from engines.driving import JSON, Engine, created
from millstream.protocol.errors import MalformedError
from millstream.protocol.forks import (
    ForkBeyondTail,
    ForkUnaligned,
    SourceDeleted,
    SourceNotFound,
    SubOffsetOvershoot,
)
from millstream.protocol.lifecycle import ConfigMismatch, Create, Delete, Exists, NameInUse
from millstream.protocol.producers import Gap, Stamp
from millstream.protocol.streams import Append, NotFound, SoftDeleted, TypeMismatch


@pytest.fixture
def source(engine: Engine) -> Engine:
    """An engine with the stream /source that holds `abcdef` in two appends."""
    engine.create("/source", b"abc")
    engine.append("/source", b"def")
    return engine


# -- What a fork sees ----------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [None, *range(7)])
def test_a_fork_begins_with_its_sources_bytes(source: Engine, offset: int | None) -> None:
    """F1: it shares their offsets, and goes its own way after."""
    fork = created(source.fork("/fork", "/source", offset, body=b"XY"))
    base = 6 if offset is None else offset
    assert (fork.base, fork.tail) == (base, base + 2)
    source.append("/source", b"ghi")
    source.append("/fork", b"Z")
    whole = b"abcdef"[:base] + b"XYZ"
    assert source.content("/fork") == whole
    assert source.content("/source") == b"abcdefghi"
    for position in range(len(whole) + 1):
        for size in (1, 2, 5):
            assert source.chunk("/fork", position, max_bytes=size).data == whole[position : position + size]


def test_forks_of_forks_see_all_their_ancestors(source: Engine) -> None:
    """F1."""
    names = ["/source", "/1", "/2", "/3", "/4"]
    whole = b"abcdef"
    for parent, child in pairwise(names):
        created(source.fork(child, parent))
        source.append(parent, b"unseen")
        source.append(child, child.encode())
        whole += child.encode()
        assert source.content(child) == whole
    source.restart()
    assert source.content("/4") == whole


def test_a_fork_may_branch_off_before_its_sources_own_beginning(source: Engine) -> None:
    """F1."""
    source.fork("/late", "/source", 4, body=b"LATE")
    created(source.fork("/early", "/late", 2, body=b"E"))
    created(source.fork("/earlier", "/early", 1, body=b"R"))
    created(source.fork("/zero", "/earlier", 0))
    assert source.content("/late") == b"abcdLATE"
    assert source.content("/early") == b"abE"
    assert source.content("/earlier") == b"aR"
    assert source.content("/zero") == b""


@pytest.mark.parametrize("sub_offset", [0, 1, 2, 3])
def test_a_sub_offset_counts_bytes_of_the_next_append(source: Engine, sub_offset: int) -> None:
    """F1: up to its whole length."""
    fork = created(source.fork("/fork", "/source", 3, sub_offset))
    assert (fork.base, fork.tail) == (3 + sub_offset, 3 + sub_offset)
    assert source.content("/fork") == b"abcdef"[: 3 + sub_offset]


@pytest.mark.parametrize(("offset", "sub_offset", "available"), [(3, 4, 3), (0, 4, 3), (1, 3, 2), (6, 1, 0)])
def test_a_sub_offset_past_the_next_boundary_is_refused(
    source: Engine, offset: int, sub_offset: int, available: int
) -> None:
    """F1."""
    assert source.fork("/fork", "/source", offset, sub_offset) == SubOffsetOvershoot(available)


@pytest.fixture
def batches(engine: Engine) -> Engine:
    """An engine with the JSON stream /source that holds 1 to 5 in two appends of 3 and 2 messages."""
    engine.create("/source", b"[1,2,3]", content_type=JSON)
    engine.append("/source", b"[4,5]", content_type=JSON)
    return engine


@pytest.mark.parametrize(
    ("offset", "sub_offset", "inherited"),
    [(0, 0, []), (0, 1, [1]), (0, 2, [1, 2]), (0, 3, [1, 2, 3]), (2, 1, [1, 2]), (6, 1, [1, 2, 3, 4])],
)
def test_a_sub_offset_counts_messages_on_json(
    batches: Engine, offset: int, sub_offset: int, inherited: list[int]
) -> None:
    """F1: and reads of the fork stay whole, wherever it was cut."""
    created(batches.fork("/fork", "/source", offset, sub_offset))
    batches.append("/fork", b"[10,11]", content_type=JSON)
    messages, position = [], 0
    while position < batches.stream("/fork").tail:
        found = batches.chunk("/fork", position, max_bytes=3)
        messages += json.loads(b"[%b]" % found.data[:-1])
        position = found.end
    assert messages == [*inherited, 10, 11]


@pytest.mark.parametrize(("offset", "sub_offset", "available"), [(0, 4, 3), (2, 3, 2), (6, 3, 2), (10, 1, 0)])
def test_a_json_sub_offset_past_the_next_boundary_is_refused(
    batches: Engine, offset: int, sub_offset: int, available: int
) -> None:
    """F1."""
    assert batches.fork("/fork", "/source", offset, sub_offset) == SubOffsetOvershoot(available)


@pytest.mark.parametrize("sub_offset", [0, 1])
@pytest.mark.parametrize("offset", [1, 3, 7])
def test_a_json_fork_never_begins_inside_a_message(batches: Engine, offset: int, sub_offset: int) -> None:
    """F1, O3: such an offset was never given, and would break every reader of the fork."""
    assert batches.fork("/fork", "/source", offset, sub_offset) == ForkUnaligned()
    assert batches.head("/fork") == NotFound("/fork")


def test_a_fork_of_a_cut_fork_counts_what_is_left_of_the_append(batches: Engine) -> None:
    """F1."""
    batches.fork("/cut", "/source", 0, 2)
    assert batches.fork("/fork", "/cut", 0, 3) == SubOffsetOvershoot(2)
    created(batches.fork("/fork", "/cut", 0, 2))
    assert batches.content("/fork") == b"1,2,"


# -- What a fork is ------------------------------------------------------------------------------


def test_a_fork_is_open_and_knows_no_producer(source: Engine) -> None:
    """F1."""
    source.append("/source", b"g", stamp=Stamp(b"p", 3, 0), seq=b"z", closes=True)
    fork = created(source.fork("/fork", "/source"))
    assert not fork.closed
    assert source.append("/fork", b"h", stamp=Stamp(b"p", 3, 1)) == Gap(0, 1)
    assert isinstance(source.append("/fork", b"h", stamp=Stamp(b"p", 3, 0), seq=b"a"), Append)
    assert source.content("/fork") == b"abcdefgh"


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        ({"source": "/nowhere"}, SourceNotFound("/nowhere")),
        ({"source": "/fork"}, SourceNotFound("/fork")),
        ({"source": "/source", "offset": 7}, ForkBeyondTail(6)),
        ({"source": "/source", "offset": 3, "sub_offset": 9}, SubOffsetOvershoot(3)),
        (
            {"source": "/source", "content_type": b"text/html"},
            TypeMismatch(b"text/plain", b"text/html"),
        ),
    ],
)
def test_a_rejected_fork_takes_no_reference(
    source: Engine, request_: dict[str, str], refusal: object
) -> None:
    """F1."""
    assert source.fork("/fork", **request_) == refusal
    assert source.head("/fork") == NotFound("/fork")
    assert source.stream("/source").fork_count == 0
    assert source.delete("/source").soft is False


def test_a_fork_that_is_not_json_takes_no_reference(batches: Engine) -> None:
    """A3, F1."""
    with pytest.raises(MalformedError):
        batches.fork("/fork", "/source", body=b"{")
    assert batches.stream("/source").fork_count == 0


def test_forking_twice_is_forking_once(source: Engine) -> None:
    """C1, F1."""
    created(source.fork("/fork", "/source", 3, 1))
    assert isinstance(source.fork("/fork", "/source", 3, 1), Exists)
    assert source.fork("/fork", "/source", 3, 2) == ConfigMismatch("/fork", "fork sub-offset")
    assert source.fork("/fork", "/source", 4, 1) == ConfigMismatch("/fork", "fork offset")
    assert source.create("/fork") == ConfigMismatch("/fork", "fork source")
    assert source.stream("/source").fork_count == 1


# -- Deleting ------------------------------------------------------------------------------------


def test_a_source_that_is_deleted_lives_on_for_its_forks(source: Engine) -> None:
    """F2: nobody else gets anything from it."""
    source.fork("/fork", "/source", 4)
    assert source.delete("/source").soft is True
    gone = SoftDeleted("/source")
    for _ in range(2):
        assert source.head("/source") == source.read("/source") == source.delete("/source") == gone
        assert source.append("/source", b"x") == gone
        assert source.create("/source") == NameInUse("/source")
        assert source.fork("/other", "/source") == SourceDeleted("/source")
        assert source.names() == ["/fork"]
        assert source.content("/fork") == b"abcd"
        source.restart()


def test_the_last_forks_end_frees_its_source(source: Engine) -> None:
    """F2."""
    for number in range(3):
        created(source.fork(f"/{number}", "/source"))
    source.delete("/source")
    for number in range(3):
        assert source.head("/source") == SoftDeleted("/source")
        assert isinstance(source.delete(f"/{number}"), Delete)
        source.restart()
    assert source.head("/source") == NotFound("/source")
    assert isinstance(source.create("/source", b"again"), Create)
    assert source.content("/source") == b"again"


def test_cleaning_up_goes_up_the_chain(source: Engine) -> None:
    """F2."""
    chain = ["/source", "/1", "/2", "/3"]
    for parent, child in pairwise(chain):
        created(source.fork(child, parent, body=child.encode()))
    for name in chain[:-1]:
        assert source.delete(name).soft is True
    source.restart()
    assert source.content("/3") == b"abcdef/1/2/3"
    assert source.delete("/3").soft is False
    assert [source.head(name) for name in chain] == [NotFound(name) for name in chain]
    assert source.names() == []


def test_cleaning_up_stops_at_whoever_is_still_needed(source: Engine) -> None:
    """F2."""
    for parent, child in (("/source", "/1"), ("/1", "/2"), ("/1", "/other")):
        source.fork(child, parent, body=child.encode())
    source.delete("/source")
    source.delete("/1")
    source.delete("/2")
    assert source.head("/2") == NotFound("/2")
    assert source.head("/1") == SoftDeleted("/1")
    assert source.content("/other") == b"abcdef/1/other"
    source.delete("/other")
    assert source.head("/source") == NotFound("/source")


def test_a_source_that_was_not_deleted_stays(source: Engine) -> None:
    """F2."""
    source.fork("/fork", "/source")
    source.delete("/fork")
    assert source.content("/source") == b"abcdef"
    assert source.stream("/source").fork_count == 0
    assert source.delete("/source").soft is False


def test_forks_are_counted_exactly(source: Engine) -> None:
    """F2: however they come and go."""
    for number in range(4):
        source.fork(f"/{number}", "/source")
        source.fork(f"/{number}", "/source")  # the same once more
    assert source.stream("/source").fork_count == 4
    for number in range(3):
        source.delete(f"/{number}")
        source.delete(f"/{number}")
    source.restart()
    assert source.stream("/source").fork_count == 1
