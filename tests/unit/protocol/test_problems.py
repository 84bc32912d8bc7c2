"""What refusals say over HTTP: rules A2, A5 to A7, F1, F2, H2, R2."""

import json

import pytest

from millstream.protocol import forks, lifecycle, problems, streams
from millstream.protocol.conditions import OffsetConflict, TagConflict
from millstream.protocol.content import Kind
from millstream.protocol.errors import (
    MalformedError,
    OutsideMountError,
    RequestError,
    TooLargeError,
    UnsupportedEncodingError,
)
from millstream.protocol.http import Header, Reply
from millstream.protocol.offsets import format_offset
from millstream.protocol.producers import BadStart, Fenced, Gap, TooManyProducers
from millstream.protocol.reads import OffsetGone, OffsetUnaligned, ReadFailed
from millstream.protocol.replies import reply_to
from millstream.protocol.streams import Stream

NEXT = (b"stream-next-offset", format_offset(10))
CLOSED = (b"stream-closed", b"true")
NO_STORE = (b"cache-control", b"no-store")
EARLIEST = [(b"stream-earliest-offset", b"0000000000000000_0000000000000010")]
PROBLEMS = [
    (streams.NotFound("/s"), 404, "NOT_FOUND", []),
    (streams.SoftDeleted("/s"), 410, "GONE", []),
    (streams.NoSpace(), 507, "NO_SPACE", [(b"retry-after", b"5")]),
    (streams.StoreFailed(), 503, "STORE_FAILED", [(b"retry-after", b"5")]),
    (streams.Unreachable(), 503, "DATABASE_UNREACHABLE", [(b"retry-after", b"1")]),
    (streams.Unreachable(is_unknown=True), 503, "DATABASE_UNREACHABLE", [(b"retry-after", b"1")]),
    (streams.Backlogged(), 503, "CHECKPOINTS_BEHIND", [(b"retry-after", b"1")]),
    (streams.NotSaved("/a"), 503, "STREAM_NOT_SAVED", [(b"retry-after", b"5")]),
    (streams.Closed(10), 409, "STREAM_CLOSED", [NEXT, CLOSED]),
    (streams.TypeMismatch(b"a/b", b"c/d"), 409, "CONTENT_TYPE_MISMATCH", []),
    (streams.SeqRegressed(b"b", b"a", 10), 409, "SEQUENCE_REGRESSION", [NEXT]),
    (OffsetConflict(8, 10), 409, "EXPECTED_OFFSET_CONFLICT", [NEXT]),
    (TagConflict(10, b'"1:10:10"'), 412, "PRECONDITION_FAILED", [NEXT, (b"etag", b'"1:10:10"')]),
    (Fenced(3), 403, "STALE_EPOCH", [(b"producer-epoch", b"3")]),
    (Gap(6, 8), 409, "SEQUENCE_GAP", [(b"producer-expected-seq", b"6"), (b"producer-received-seq", b"8")]),
    (BadStart(4), 400, "EPOCH_START", []),
    (TooManyProducers(10), 403, "TOO_MANY_PRODUCERS", []),
    (lifecycle.ConfigMismatch("/s", "TTL"), 409, "CONFIG_MISMATCH", []),
    (lifecycle.NameInUse("/s"), 409, "NAME_IN_USE", []),
    (forks.SourceNotFound("/s"), 404, "FORK_SOURCE_NOT_FOUND", []),
    (forks.SourceDeleted("/s"), 409, "FORK_SOURCE_DELETED", []),
    (forks.ForkBeyondTail(10), 400, "FORK_OFFSET_BEYOND_TAIL", []),
    (forks.ForkBeforeStart(10), 410, "OFFSET_GONE", EARLIEST),
    (forks.ForkUnaligned(), 400, "INVALID_OFFSET", []),
    (forks.SubOffsetOvershoot(3), 400, "FORK_SUB_OFFSET_OVERSHOOT", []),
    (OffsetGone(10), 410, "OFFSET_GONE", EARLIEST),
    (OffsetUnaligned(), 400, "INVALID_OFFSET", []),
    (ReadFailed(), 500, "INTERNAL_ERROR", []),
    (MalformedError("INVALID_JSON", "Why."), 400, "INVALID_JSON", []),
]


@pytest.mark.parametrize(("decision", "status", "code", "headers"), PROBLEMS)
def test_a_refusal_says_why(decision: object, status: int, code: str, headers: list[Header]) -> None:
    """A5 to A7, R2, F1, F2, H2, X6."""
    assert_problem(reply_to(decision), status, code, headers)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MalformedError("CODE", "Why."), 400),
        (OutsideMountError("CODE", "Why."), 404),
        (TooLargeError("CODE", "Why."), 413),
        (UnsupportedEncodingError("CODE", "Why."), 415),
    ],
)
def test_an_error_has_a_status(error: RequestError, status: int) -> None:
    """H2."""
    assert_problem(problems.malformed(error), status, "CODE", [])


def assert_problem(reply: Reply, status: int, code: str, headers: list[Header]) -> None:
    assert reply.status == status
    assert reply.headers == [(b"content-type", b"application/problem+json"), NO_STORE, *headers]
    problem = json.loads(reply.body)
    assert problem.keys() == {"title", "status", "code", "detail"}
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["title"]
    assert problem["detail"].endswith(".")


@pytest.mark.parametrize(
    "decision",
    [
        streams.NotFound('/"><script>alert(1)</script>\u2028'),
        streams.TypeMismatch(b"a/b", b'x"\xff\x80y'),
        streams.SeqRegressed(b'"', b"\xfe\x00", 0),
    ],
)
def test_input_is_echoed_only_inside_of_json(decision: object) -> None:
    """H2."""
    assert json.loads(reply_to(decision).body)["detail"]


@pytest.mark.parametrize(
    ("found", "status", "code"),
    [
        (Stream(1, "/s", b"text/plain", Kind.TEXT, 0), 400, "CODE"),
        (streams.NotFound("/s"), 404, "NOT_FOUND"),
        (streams.SoftDeleted("/s"), 410, "GONE"),
    ],
)
def test_a_missing_stream_says_so_before_a_malformed_body(
    found: Stream | streams.NotFound | streams.SoftDeleted, status: int, code: str
) -> None:
    """A2."""
    reply = problems.missing_or_malformed(found, MalformedError("CODE", "Why."))
    assert_problem(reply, status, code, [])


def test_every_kind_of_error_has_a_status() -> None:
    """H2."""
    assert set(RequestError.__subclasses__()) == set(problems._ERROR_STATUSES)
