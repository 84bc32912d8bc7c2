"""Which error an answer is: rows of (method, request headers, status, answer) and what is raised."""

import pickle
from typing import Any

import pytest

import millstream
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.errors import MillstreamError
from millstream.client.core.exchanges import Terms, refusal
from unit.client.scripted import answer

ENDPOINT = Endpoint("http://h/chat/42")
SEQ = {b"stream-seq": b"5"}
EXPECTED = {b"stream-expected-offset": b"3_3"}
PROBLEM = {"content_type": "application/problem+json"}

ROWS: list[tuple[str, dict[bytes, bytes], Any, type[MillstreamError], dict[str, Any]]] = [
    ("GET", {}, answer(400), millstream.BadRequestError, {"status": 400}),
    (
        "GET",
        {},
        answer(400, b'{"code":"INVALID_OFFSET","detail":"No."}', **PROBLEM),
        millstream.BadRequestError,
        {"code": "INVALID_OFFSET"},
    ),
    ("GET", {}, answer(401), millstream.UnauthorizedError, {"status": 401}),
    (
        "HEAD",
        {},
        answer(401, www_authenticate='Bearer realm="m"'),
        millstream.UnauthorizedError,
        {"code": "MISSING_TOKEN"},
    ),
    (
        "HEAD",
        {},
        answer(401, www_authenticate='Bearer realm="m", error="invalid_token", error_description="Old."'),
        millstream.UnauthorizedError,
        {"code": "INVALID_TOKEN", "args": ("Not allowed (Old): /chat/42",)},
    ),
    (
        "PUT",
        {},
        answer(404, b'{"code":"RESERVED_PATH","detail":"It is the server\'s."}', **PROBLEM),
        millstream.StreamNotFoundError,
        {"code": "RESERVED_PATH", "args": ("No stream can be here (It is the server's): /chat/42",)},
    ),
    ("POST", {}, answer(403), millstream.UnauthorizedError, {"status": 403}),
    ("POST", {}, answer(403, producer_epoch="7"), millstream.StaleEpochError, {"current_epoch": 7}),
    ("POST", {}, answer(403, producer_epoch="x"), millstream.ParseError, {}),
    ("GET", {}, answer(404), millstream.StreamNotFoundError, {"code": "NOT_FOUND"}),
    ("GET", {}, answer(410), millstream.StreamGoneError, {"code": "GONE"}),
    ("PUT", {}, answer(409), millstream.StreamExistsError, {"code": "CONFLICT_EXISTS"}),
    ("POST", {}, answer(409), millstream.ContentTypeMismatchError, {}),
    ("POST", SEQ, answer(409), millstream.SequenceConflictError, {"code": "SEQUENCE_CONFLICT"}),
    (
        "POST",
        SEQ,
        answer(409, b'{"code":"CONTENT_TYPE_MISMATCH"}', **PROBLEM),
        millstream.ContentTypeMismatchError,
        {},
    ),
    (
        "POST",
        SEQ,
        answer(409, stream_closed="TRUE", stream_next_offset="5_5"),
        millstream.StreamClosedError,
        {
            "final_offset": "5_5",
            "offset": "5_5",
            "stream_closed": True,
            "code": "STREAM_CLOSED",
            "status": 409,
        },
    ),
    (
        "POST",
        {},
        answer(409, producer_expected_seq="3", producer_received_seq="9"),
        millstream.SequenceGapError,
        {"expected": 3, "received": 9},
    ),
    (
        "POST",
        EXPECTED,
        answer(409, b'{"code":"EXPECTED_OFFSET_CONFLICT"}', stream_next_offset="5_5", **PROBLEM),
        millstream.OffsetConflictError,
        {"current_offset": "5_5", "offset": "5_5", "status": 409, "code": "EXPECTED_OFFSET_CONFLICT"},
    ),
    # A server without codes: the tail that it names is not the expected one.
    (
        "POST",
        SEQ | EXPECTED,
        answer(409, b"Expected offset conflict", stream_next_offset="5_5"),
        millstream.OffsetConflictError,
        {"current_offset": "5_5"},
    ),
    (
        "POST",
        SEQ | EXPECTED,
        answer(409, b"Sequence conflict", stream_next_offset="3_3"),
        millstream.SequenceConflictError,
        {},
    ),
    (
        "POST",
        SEQ | EXPECTED,
        answer(409, b'{"code":"SEQUENCE_REGRESSION"}', stream_next_offset="5_5", **PROBLEM),
        millstream.SequenceConflictError,
        {},
    ),
    (
        "POST",
        EXPECTED,
        answer(409, stream_closed="true", stream_next_offset="5_5"),
        millstream.StreamClosedError,
        {"final_offset": "5_5"},
    ),
    ("POST", {}, answer(413), millstream.PayloadTooLargeError, {}),
    ("POST", {}, answer(429, retry_after="3"), millstream.RateLimitedError, {"retry_after": 3.0}),
    ("POST", {}, answer(429), millstream.RateLimitedError, {"retry_after": None}),
    ("GET", {}, answer(500, b"oops"), millstream.UnexpectedStatusError, {"status": 500}),
    ("GET", {}, answer(302), millstream.UnexpectedStatusError, {"status": 302, "code": "UNEXPECTED_STATUS"}),
    ("GET", {}, answer(503, b"{", **PROBLEM), millstream.UnexpectedStatusError, {"status": 503}),
]


def raised(method: str, fields: dict[bytes, bytes], given: Any) -> MillstreamError:
    try:
        return refusal(ENDPOINT, Ask(method.encode(), fields), given, Terms())
    except millstream.ParseError as error:
        return error


@pytest.mark.parametrize(("method", "fields", "given", "kind", "has"), ROWS)
def test_an_answer_is_one_error(
    method: str, fields: dict[bytes, bytes], given: Any, kind: type[MillstreamError], has: dict[str, Any]
) -> None:
    error = raised(method, fields, given)
    assert type(error) is kind
    assert {name: getattr(error, name) for name in has} == has
    assert error.url == "http://h/chat/42"
    assert "/chat/42" in str(error)


@pytest.mark.parametrize(("method", "fields", "given", "kind", "has"), ROWS)
def test_errors_travel_between_processes(
    method: str, fields: dict[bytes, bytes], given: Any, kind: type[MillstreamError], has: dict[str, Any]
) -> None:
    error = raised(method, fields, given)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.__dict__) == (kind, str(error), error.__dict__)


def test_an_unsent_request_says_so_after_a_journey_too() -> None:
    error = millstream.TransportError("Could not connect", url="http://h/s", unsent=True, code="TIMEOUT")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.unsent, copy.code, str(copy)) == (True, "TIMEOUT", "Could not connect: /s")


def test_every_error_has_one_root() -> None:
    kinds = [value for name, value in vars(millstream).items() if name.endswith("Error")]
    assert len(kinds) == 23
    assert all(issubclass(kind, millstream.MillstreamError) for kind in kinds)
