"""Rule X3: what is decided on parts, and how it is asked for."""

from collections.abc import Callable

import pytest

from millstream.protocol import parts, streams
from millstream.protocol.conditions import Condition, OffsetConflict
from millstream.protocol.content import Kind
from millstream.protocol.errors import MalformedError
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.producers import Gap, ProducerState, Stamp
from millstream.protocol.queries import Query
from millstream.protocol.requests import AppendRequest
from millstream.protocol.staging import PART_LIFETIME_MS, Part, Staged
from millstream.protocol.streams import Closed, Duplicate, Stream

TEXT = b"text/plain"


def new_stream(**state: object) -> Stream:
    return Stream(1, "/a", TEXT, Kind.TEXT, 0, **state)  # type: ignore[arg-type]


def with_parts(**contents: bytes) -> tuple[Stream, dict[int, bytes]]:
    """A stream with staged parts, and their bytes."""
    stream, stored = new_stream(tail=10), {}
    for id, data in contents.items():
        stored[parts.apply_stage(stream, parts.Stage(id, data), 1000)] = data
    return stream, stored


def nothing(_number: int) -> bytes:
    raise AssertionError("there is nothing to compare with")


def stage(
    stream: Stream, id: str, data: bytes, stored: Callable[[int], bytes] = nothing, most: int = 100
) -> parts.StagePlan:
    return parts.plan_stage(stream, StageRequest(id, data, TEXT), most, stored)


def test_parts_are_numbered_and_numbers_are_never_used_again() -> None:
    stream, _ = with_parts(a=b"1", b=b"22")
    assert stream.staged == Staged({"a": Part(0, 1, 1000), "b": Part(1, 2, 1000)}, 2, 3)
    assert parts.take_parts(stream, ["b", "a"]) == [1, 0]
    assert stream.staged == Staged({}, 2, 0)
    assert parts.apply_stage(stream, parts.Stage("a", b"x"), 1000) == 2
    streams.apply_append(stream, streams.Append(b"", 10, True, None, None), 0)
    assert stream.staged == Staged({}, 3, 0)


def test_staging_changes_nothing_that_readers_see() -> None:
    stream, _ = with_parts(a=b"1")
    assert (stream.tail, stream.closed, stream.last_seq, stream.producers) == (10, False, None, None)


def test_the_same_bytes_under_the_same_id() -> None:
    stream, stored = with_parts(a=b"abc")
    assert stage(stream, "a", b"abc", stored.__getitem__) == parts.AlreadyStaged()
    assert stage(stream, "a", b"abd", stored.__getitem__) == parts.PartConflict("a")
    assert stage(stream, "a", b"ab") == parts.PartConflict("a")  # the size tells, without a look at the bytes
    assert stage(stream, "b", b"abc") == parts.Stage("b", b"abc")


def test_a_closed_stream_says_so_first() -> None:
    stream = new_stream(closed=True, tail=7)
    request = StageRequest("a", b"x", b"application/json")
    assert parts.plan_stage(stream, request, 0, nothing) == Closed(7)
    assert parts.plan_commit(stream, CommitRequest(["nowhere"])) == Closed(7)
    assert parts.plan_commit(stream, CommitRequest(["nowhere"], closes=True)) == Closed(7)


def test_limits_hold_what_waits_and_not_what_is_repeated() -> None:
    stream, stored = with_parts(a=b"abc")
    assert stage(stream, "b", b"xyz", most=5) == parts.StagedTooMuch(5)
    assert stage(stream, "b", b"xy", most=5) == parts.Stage("b", b"xy")
    assert stage(stream, "a", b"abc", stored.__getitem__, most=0) == parts.AlreadyStaged()


def test_a_commit_takes_parts_in_the_order_of_the_list() -> None:
    stream, _ = with_parts(a=b"1", b=b"22", c=b"333")
    plan = parts.plan_commit(stream, CommitRequest(["c", "a"], True, Stamp(b"p", 0, 0), b"s"))
    append = streams.Append(b"", 14, True, Stamp(b"p", 0, 0), b"s")
    assert plan == parts.Commit(append, ["c", "a"], 4)


def test_a_commit_is_judged_as_an_append_before_its_parts_are_looked_for() -> None:
    stamp = Stamp(b"p", 1, 4)
    stream = new_stream(tail=5, producers={b"p": ProducerState(1, 4)}, last_seq=b"m")
    assert parts.plan_commit(stream, CommitRequest(["gone"], stamp=stamp)) == Duplicate(5, False, 1, 4)
    assert parts.plan_commit(stream, CommitRequest(["gone"], stamp=Stamp(b"p", 1, 6))) == Gap(5, 6)
    regressed = streams.SeqRegressed(b"m", b"a", 5)
    assert parts.plan_commit(stream, CommitRequest(["gone"], seq=b"a")) == regressed
    assert parts.plan_commit(stream, CommitRequest(["gone"], seq=b"z")) == parts.PartMissing("gone")


def test_where_a_commit_expects_the_tail_is_asked_after_its_parts() -> None:
    """X6: a commit that comes again finds its parts missing, which says more than that the tail moved."""
    stream, _ = with_parts(a=b"1")
    elsewhere = Condition(stream.tail + 1, None)
    conflict = OffsetConflict(stream.tail + 1, stream.tail)
    assert parts.plan_commit(stream, CommitRequest(["a"], condition=elsewhere)) == conflict
    assert parts.plan_commit(stream, CommitRequest(["gone"], condition=elsewhere)) == parts.PartMissing(
        "gone"
    )
    here = Condition(stream.tail, None)
    assert isinstance(parts.plan_commit(stream, CommitRequest(["a"], condition=here)), parts.Commit)


def test_parts_expire_after_a_day_oldest_first() -> None:
    staged = Staged()
    staged.add("old", 1, 0)
    staged.add("young", 1, 1)
    assert staged.expired(PART_LIFETIME_MS - 1) == []
    assert staged.expired(PART_LIFETIME_MS) == ["old"]
    assert staged.expired(PART_LIFETIME_MS + 1) == ["old", "young"]


def test_a_copy_stays_as_it_was() -> None:
    staged = Staged()
    staged.add("a", 1, 0)
    copy = staged.copy()
    staged.take("a")
    assert (list(copy.parts), copy.size) == (["a"], 1)


# -- How it is asked for -----------------------------------------------------------------------------


@pytest.mark.parametrize("id", [b"a", b"A-b_c.d~9", b"x" * 200])
def test_ids(id: bytes) -> None:
    assert parts.part_of(Query(b"part=" + id)) == id.decode()


@pytest.mark.parametrize("id", [b"", b"a%20b", b"a+b", b"a%2Fb", b"%00", b"x" * 201, b"%C3%A9", b"a%0A"])
def test_ids_that_are_none(id: bytes) -> None:
    with pytest.raises(MalformedError) as refused:
        parts.part_of(Query(b"part=" + id))
    assert refused.value.code == "INVALID_PART_ID"


def test_what_a_query_asks_for() -> None:
    assert parts.part_of(Query(b"offset=-1")) is None
    assert not parts.is_commit(Query(b"part=a"))
    assert parts.is_commit(Query(b"parts=commit"))
    for query in (b"parts=drop", b"parts", b"parts=commit&part=a", b"parts=commit&parts=commit"):
        with pytest.raises(MalformedError):
            parts.is_commit(Query(query))


def test_a_part_is_read_like_an_append() -> None:
    fields = {b"content-type": b"application/json"}
    assert parts.parse_stage("a", fields, b"[1, 2]").data == b"1,2,"
    for body in (b"[]", b"", b"[1,"):
        with pytest.raises(MalformedError):
            parts.parse_stage("a", fields, body)
    expected = {b"stream-expected-offset": b"0000000000000000_0000000000000010"}
    for more in ({b"stream-closed": b"true"}, {b"stream-seq": b"1"}, expected, {b"if-match": b'"a"'}):
        with pytest.raises(MalformedError) as refused:
            parts.parse_stage("a", fields | more, b"1")
        assert refused.value.code == "PART_WITH_COMMIT_HEADERS"


def test_a_commit_is_read_with_all_that_an_append_may_carry() -> None:
    fields = {
        b"stream-closed": b"true",
        b"stream-seq": b"s",
        b"producer-id": b"p",
        b"producer-epoch": b"1",
        b"producer-seq": b"2",
        b"stream-expected-offset": b"0000000000000000_0000000000000010",
    }
    rest = True, Stamp(b"p", 1, 2), b"s", Condition(10, None)
    assert parts.parse_commit(fields, b'{"parts":["b","a"]}') == CommitRequest(["b", "a"], *rest)
    assert parts.parse_commit(fields, b'{"parts":[]}') == AppendRequest(b"", b"", *rest)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"parts":[]}', "EMPTY_APPEND"),
        (b"", "INVALID_PARTS"),
        (b'["a"]', "INVALID_PARTS"),
        (b'{"parts":["\xff"]}', "INVALID_PARTS"),
        (b'{"\xff":[]}', "INVALID_PARTS"),
        (b'{"parts":["a"],"x":1}', "INVALID_PARTS"),
        (b'{"parts":["a","a"]}', "REPEATED_PART"),
        (b'{"parts":["a b"]}', "INVALID_PART_ID"),
    ],
)
def test_commits_that_are_none(body: bytes, code: str) -> None:
    with pytest.raises(MalformedError) as refused:
        parts.parse_commit({}, body)
    assert refused.value.code == code
