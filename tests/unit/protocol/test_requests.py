"""Requests: rules O3, C3, C4, A3, A4, R1, F1, G7, L1."""

import pytest

from millstream.protocol.errors import MalformedError
from millstream.protocol.expiry import Lifetime
from millstream.protocol.offsets import NOW, START
from millstream.protocol.producers import Stamp
from millstream.protocol.queries import Query
from millstream.protocol.requests import (
    AppendRequest,
    CreateRequest,
    DeletionRequest,
    ListingRequest,
    LiveMode,
    ReadRequest,
    asks_what_get_answers,
    location,
    parse_append,
    parse_create,
    parse_deletion,
    parse_listing,
    parse_read,
)

Headers = dict[bytes, bytes]

TEXT = {b"content-type": b"text/plain"}
JSON = {b"content-type": b"application/json"}
CLOSE = {b"stream-closed": b"true"}
PRODUCER = {b"producer-id": b"p", b"producer-epoch": b"1", b"producer-seq": b"2"}
TWENTY = b"0000000000000000_0000000000000020"


@pytest.mark.parametrize(
    ("headers", "body", "request_"),
    [
        (TEXT, b"a", AppendRequest(b"a", b"text/plain", False, None, None)),
        (JSON, b"[1, 2]", AppendRequest(b"1,2,", b"application/json", False, None, None)),
        (TEXT | CLOSE, b"a", AppendRequest(b"a", b"text/plain", True, None, None)),
        (CLOSE, b"", AppendRequest(b"", b"", True, None, None)),
        (JSON | CLOSE, b"", AppendRequest(b"", b"application/json", True, None, None)),
        (TEXT | {b"stream-seq": b"9"}, b"a", AppendRequest(b"a", b"text/plain", False, None, b"9")),
        (TEXT | PRODUCER, b"a", AppendRequest(b"a", b"text/plain", False, Stamp(b"p", 1, 2), None)),
        (CLOSE | PRODUCER, b"", AppendRequest(b"", b"", True, Stamp(b"p", 1, 2), None)),
        (TEXT | {b"stream-closed": b"no"}, b"a", AppendRequest(b"a", b"text/plain", False, None, None)),
    ],
)
def test_a_post_is_data_or_closure_or_both(headers: Headers, body: bytes, request_: AppendRequest) -> None:
    """A1, A4, A10."""
    assert parse_append(headers, body) == request_


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        ({}, b"a", "MISSING_CONTENT_TYPE"),
        ({b"content-type": b""}, b"a", "MISSING_CONTENT_TYPE"),
        (CLOSE, b"a", "MISSING_CONTENT_TYPE"),
        (TEXT, b"", "EMPTY_APPEND"),
        ({}, b"", "EMPTY_APPEND"),
        (TEXT | {b"stream-closed": b"1"}, b"", "EMPTY_APPEND"),
        (JSON, b"[]", "EMPTY_APPEND"),
        (JSON | CLOSE, b"[]", "EMPTY_APPEND"),
        (JSON, b"{", "INVALID_JSON"),
        (JSON, b"NaN", "INVALID_JSON"),
        (JSON, b'"\xff"', "INVALID_JSON"),
        ({b"content-type": b"application/json; charset=utf-8"}, b"{", "INVALID_JSON"),
        (JSON, b"[" * 600 + b"]" * 600, "JSON_TOO_DEEP"),
        (TEXT | {b"producer-id": b"p"}, b"a", "INCOMPLETE_PRODUCER"),
        (TEXT | PRODUCER | {b"producer-seq": b"x"}, b"a", "INVALID_INTEGER"),
    ],
)
def test_a_malformed_post_is_refused(headers: Headers, body: bytes, code: str) -> None:
    """A3, R1."""
    with pytest.raises(MalformedError) as refused:
        parse_append(headers, body)
    assert refused.value.code == code


FORK = {b"stream-forked-from": b"/a%20b"}
AT_TWENTY = {b"stream-fork-offset": TWENTY}


@pytest.mark.parametrize(
    ("headers", "body", "request_"),
    [
        ({}, b"", CreateRequest()),
        ({b"content-type": b""}, b"", CreateRequest()),
        (TEXT, b"a", CreateRequest(body=b"a", content_type=b"text/plain")),
        (CLOSE, b"", CreateRequest(closed=True)),
        ({b"stream-closed": b"1"}, b"", CreateRequest()),
        ({b"stream-ttl": b"60"}, b"", CreateRequest(lifetime=Lifetime(ttl_s=60))),
        (
            {b"stream-expires-at": b"1970-01-01T00:00:01Z"},
            b"",
            CreateRequest(lifetime=Lifetime(expires_at=b"1970-01-01T00:00:01Z", expires_ms=1000)),
        ),
        (FORK, b"", CreateRequest(forked_from="/a b")),
        (FORK | AT_TWENTY, b"", CreateRequest(forked_from="/a b", fork_offset=20)),
        (FORK | {b"stream-fork-offset": b"-1"}, b"", CreateRequest(forked_from="/a b", fork_offset=0)),
        (FORK | {b"stream-fork-offset": b"now"}, b"", CreateRequest(forked_from="/a b")),
        (FORK | {b"stream-fork-sub-offset": b"0"}, b"", CreateRequest(forked_from="/a b")),
        (
            FORK | AT_TWENTY | {b"stream-fork-sub-offset": b"3"},
            b"",
            CreateRequest(forked_from="/a b", fork_offset=20, fork_sub_offset=3),
        ),
    ],
)
def test_a_put_says_what_the_stream_should_be(headers: Headers, body: bytes, request_: CreateRequest) -> None:
    """C3, C4, F1."""
    assert parse_create(headers, body) == request_


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({b"stream-ttl": b"60", b"stream-expires-at": b"2030-01-01T00:00:00Z"}, "CONFLICTING_EXPIRY"),
        ({b"stream-ttl": b"060"}, "INVALID_INTEGER"),
        ({b"stream-expires-at": b"tomorrow"}, "INVALID_TIMESTAMP"),
        (AT_TWENTY, "FORK_WITHOUT_SOURCE"),
        ({b"stream-fork-sub-offset": b"0"}, "FORK_WITHOUT_SOURCE"),
        ({b"stream-forked-from": b"a"}, "INVALID_NAME"),
        ({b"stream-forked-from": b""}, "INVALID_NAME"),
        ({b"stream-forked-from": b"/a/../b"}, "INVALID_NAME"),
        ({b"stream-forked-from": b"http://host/a"}, "INVALID_NAME"),
        (FORK | {b"stream-fork-offset": b""}, "INVALID_OFFSET"),
        (FORK | {b"stream-fork-offset": b"20"}, "INVALID_OFFSET"),
        (FORK | {b"stream-fork-sub-offset": b"1"}, "SUB_OFFSET_WITHOUT_OFFSET"),
        *(
            (FORK | AT_TWENTY | {b"stream-fork-sub-offset": text}, "INVALID_INTEGER")
            for text in (b"", b"-1", b"+1", b"01", b"00", b"1.5", b"1e1", b"one", b" 1")
        ),
    ],
)
def test_a_malformed_put_is_refused(headers: Headers, code: str) -> None:
    """C3, F1."""
    with pytest.raises(MalformedError) as refused:
        parse_create(headers, b"")
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("query", "request_"),
    [
        (b"", ReadRequest()),
        (b"offset=-1", ReadRequest(START)),
        (b"offset=now", ReadRequest(NOW)),
        (b"offset=" + TWENTY, ReadRequest(20)),
        (b"offset=-1&live=long-poll&cursor=7", ReadRequest(START, LiveMode.LONG_POLL, 7)),
        (b"offset=-1&live=sse", ReadRequest(START, LiveMode.SSE)),
        (b"live=false", ReadRequest()),
        (b"until=" + TWENTY + b"&limit=5", ReadRequest(until=20, limit=5)),
        (b"cursor=nonsense", ReadRequest()),
        (b"anything=else&offset=-1", ReadRequest()),
    ],
)
def test_a_get_says_from_where_how_far_and_whether_to_wait(query: bytes, request_: ReadRequest) -> None:
    """O2, G7, L1."""
    assert parse_read(Query(query)) == request_


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (b"offset=", "INVALID_OFFSET"),
        (b"offset", "INVALID_OFFSET"),
        (b"offset=12", "INVALID_OFFSET"),
        (b"offset=0%2C1", "INVALID_OFFSET"),
        (b"offset=a%20b", "INVALID_OFFSET"),
        (b"offset=a+b", "INVALID_OFFSET"),
        (b"offset=..%2f", "INVALID_OFFSET"),
        (b"offset=%00", "INVALID_OFFSET"),
        (b"offset=" + TWENTY + b"%0a", "INVALID_OFFSET"),
        (b"offset=-1&offset=-1", "REPEATED_PARAMETER"),
        (b"offset=-1&live=sse&live=sse", "REPEATED_PARAMETER"),
        (b"live=sse", "MISSING_OFFSET"),
        (b"live=long-poll", "MISSING_OFFSET"),
        (b"offset=-1&live=", "INVALID_LIVE_MODE"),
        (b"offset=-1&live=websocket", "INVALID_LIVE_MODE"),
        (b"offset=-1&live=%ff", "INVALID_LIVE_MODE"),
        (b"until=now", "INVALID_UNTIL"),
        (b"until=-1", "INVALID_UNTIL"),
        (b"until=5", "INVALID_OFFSET"),
        (b"limit=0", "INVALID_LIMIT"),
        (b"limit=-1", "INVALID_INTEGER"),
        (b"limit=", "INVALID_INTEGER"),
    ],
)
def test_a_malformed_get_is_refused(query: bytes, code: str) -> None:
    """O3, G7, L1."""
    with pytest.raises(MalformedError) as refused:
        parse_read(Query(query))
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("fields", "trusted", "url"),
    [
        ({b"host": b"h:1"}, False, b"http://h:1/s"),
        ({}, False, b"http://localhost/s"),
        ({b"host": b"h", b"x-forwarded-proto": b"https", b"x-forwarded-host": b"p"}, False, b"http://h/s"),
        ({b"host": b"h", b"x-forwarded-proto": b"https", b"x-forwarded-host": b"p"}, True, b"https://p/s"),
        ({b"host": b"h", b"x-forwarded-proto": b"https , http"}, True, b"https://h/s"),
    ],
)
def test_a_location_is_what_the_client_addressed(
    fields: dict[bytes, bytes], trusted: bool, url: bytes
) -> None:
    """C2: a proxy says what that was, if proxies are trusted."""
    assert location(fields, b"http", b"/s", trust_forwarded=trusted) == url


@pytest.mark.parametrize(
    ("query", "request_"),
    [
        (b"", ListingRequest("", "", "", 100)),
        (b"prefix=%2Fa&glob=**&cursor=%2Fa%2F1&limit=1000", ListingRequest("/a", "**", "/a/1", 1000)),
    ],
)
def test_a_listing_has_defaults(query: bytes, request_: ListingRequest) -> None:
    """X2."""
    assert parse_listing(Query(query)) == request_


@pytest.mark.parametrize("query", [b"limit=0", b"limit=1001", b"limit=x", b"prefix=%ff", b"glob=a&glob=b"])
def test_a_malformed_listing_is_refused(query: bytes) -> None:
    """X2."""
    with pytest.raises(MalformedError):
        parse_listing(Query(query))


@pytest.mark.parametrize(
    ("query", "request_"),
    [
        (b"prefix=/", DeletionRequest("/", "", "", 1000)),
        (b"glob=a/*", DeletionRequest("", "a/*", "", 1000)),
        (b"prefix=%2Fa&glob=**&cursor=%2Fa%2F1&limit=7", DeletionRequest("/a", "**", "/a/1", 7)),
    ],
)
def test_a_deletion_says_what_it_deletes(query: bytes, request_: DeletionRequest) -> None:
    """X11."""
    assert parse_deletion(Query(query)) == request_


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (b"", "MISSING_PREFIX"),
        (b"prefix=", "MISSING_PREFIX"),
        (b"prefix=&glob=*", "MISSING_PREFIX"),  # a variable that was not set
        (b"glob=", "MISSING_PREFIX"),
        (b"limit=5", "MISSING_PREFIX"),
        (b"prefix=chat", "INVALID_PREFIX"),
        (b"prefix=/&limit=0", "INVALID_LIMIT"),
        (b"prefix=/&limit=1001", "INVALID_LIMIT"),
        (b"prefix=/&prefix=/a", "REPEATED_PARAMETER"),
        (b"glob=" + b"a" * 1025, "GLOB_TOO_LONG"),
    ],
)
def test_a_deletion_that_does_not_say_so_is_refused(query: bytes, code: str) -> None:
    """X11."""
    with pytest.raises(MalformedError) as refused:
        parse_deletion(Query(query))
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("query", "like_get"),
    [(b"", False), (b"offset=-1", True), (b"until=1", True), (b"limit=1", True), (b"x=1", False)],
)
def test_a_head_with_read_parameters_asks_what_get_answers(query: bytes, like_get: bool) -> None:
    """X1."""
    assert asks_what_get_answers(Query(query)) is like_get
