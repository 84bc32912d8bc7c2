"""GET and HEAD: catch-up reads and metadata (protocol 5.5, 5.6)."""

from __future__ import annotations

from millstream_conformance.server.checks import case, each, rule, stricter
from millstream_conformance.server.servers import Server


@rule("G1")
@case("catch-up-up-to-date")
def test_a_read_to_the_tail_is_up_to_date(server: Server) -> None:
    """200 with the bytes, the next offset, an ETag and Stream-Up-To-Date."""
    stream = server.stream("text/plain", b"hello")
    answer = stream.get("-1")
    assert answer.status == 200
    assert answer.body == b"hello"
    assert answer.content_type == "text/plain"
    assert answer.next_offset == stream.tail()
    assert answer.up_to_date
    assert answer.etag
    assert "Stream-Closed" not in answer.headers


@rule("G1")
@case("catch-up-resume-from-next-offset")
def test_reading_on_from_the_next_offset_misses_nothing(server: Server) -> None:
    """The next offset of one read is where the next one starts."""
    stream = server.stream("text/plain", b"one ")
    first = stream.get()
    stream.append(b"two")
    second = stream.get(first.next_offset)
    assert second.body == b"two"
    assert second.next_offset == stream.tail()


@rule("G1")
@case("catch-up-echoes-offset-when-empty")
@each("content_type", {"text": "text/plain", "json": "application/json"})
def test_a_read_at_the_tail_is_empty(server: Server, content_type: str) -> None:
    """A read at the tail is 200, empty, up to date, with the same offset."""
    stream = server.stream(content_type, b"[1]")
    tail = stream.tail()
    answer = stream.get(tail)
    assert answer.status == 200
    assert answer.body == (b"[]" if content_type == "application/json" else b"")
    assert answer.next_offset == tail
    assert answer.up_to_date
    assert answer.etag


@rule("G1")
def test_an_empty_stream_reads_empty(server: Server) -> None:
    """A stream without content is 200 with an empty body."""
    answer = server.stream().get()
    assert answer.status == 200
    assert answer.body == b""
    assert answer.up_to_date


@rule("G1")
def test_a_long_stream_is_read_in_parts(server: Server) -> None:
    """Partial answers make progress; together they are the stream."""
    stream = server.stream("application/octet-stream")
    for letter in b"abc":
        stream.append(bytes([letter]) * 800_000)
    *partial, last = stream.pages()
    for page in partial:
        assert page.etag
        assert page.next_offset < last.next_offset
    assert last.next_offset == stream.tail()
    assert b"".join(page.body for page in [*partial, last]) == b"".join(bytes([c]) * 800_000 for c in b"abc")


@rule("G2")
@case("offset-now-skips-to-tail")
@each("content_type", {"text": "text/plain", "json": "application/json"})
def test_now_skips_everything(server: Server, content_type: str) -> None:
    """`offset=now`: no data, the tail, up to date."""
    stream = server.stream(content_type, b"[1]")
    answer = stream.get("now")
    assert answer.status == 200
    assert answer.body == (b"[]" if content_type == "application/json" else b"")
    assert answer.content_type == content_type
    assert answer.next_offset == stream.tail()
    assert answer.up_to_date
    assert "Stream-Closed" not in answer.headers
    appended = stream.append(b"[2]")
    assert stream.get(answer.next_offset).next_offset == appended.next_offset
    assert b"2" in stream.get(answer.next_offset).body


@rule("G2")
@stricter("section 8 says SHOULD for no-store, and section 10.1 exempts these answers from ETags")
def test_now_is_not_for_caches(server: Server) -> None:
    """`offset=now` answers with no-store and without an ETag."""
    answer = server.stream("text/plain", b"x").get("now")
    assert "no-store" in answer.cache_control
    assert "ETag" not in answer.headers


@rule("G8")
@case("head-metadata")
def test_head_shows_the_stream(server: Server) -> None:
    """HEAD: content type, tail and lifetime, without a body."""
    stream = server.stream("text/plain", b"hello", headers={"Stream-TTL": "3600"})
    answer = stream.head()
    assert answer.status == 200
    assert answer.content_type == "text/plain"
    assert answer.next_offset == stream.created.next_offset
    assert answer.headers.get("Stream-TTL") == "3600"
    assert stream.get().body == b"hello", "HEAD left no body on the connection"


@rule("G8")
@stricter("section 5.5 lists both as optional; one can be computed from the other")
def test_head_shows_the_lifetime_as_configured(server: Server) -> None:
    """A stream with a TTL has no Stream-Expires-At, and one with an expiry has no Stream-TTL."""
    assert "Stream-Expires-At" not in server.stream(headers={"Stream-TTL": "3600"}).head().headers
    fixed = server.stream(headers={"Stream-Expires-At": "2099-01-02T03:04:05Z"})
    assert "Stream-TTL" not in fixed.head().headers


@rule("G8")
def test_head_leaves_out_what_is_not_configured(server: Server) -> None:
    """Without a lifetime HEAD has neither Stream-TTL nor Stream-Expires-At."""
    answer = server.stream().head()
    assert "Stream-TTL" not in answer.headers
    assert "Stream-Expires-At" not in answer.headers


@rule("G1", "G8")
@each("method", ["GET", "HEAD", "DELETE"])
def test_a_missing_stream_is_404(server: Server, method: str) -> None:
    """GET, HEAD and DELETE of a missing stream are 404."""
    assert server.request(method, server.path()).status == 404


@rule("G7")
@stricter("the protocol does not say what a server does with unknown parameters")
def test_unknown_parameters_are_ignored(server: Server) -> None:
    """Unknown query parameters are ignored."""
    stream = server.stream("text/plain", b"hello")
    answer = stream.get(raw_query="offset=-1&foo=bar&_=1&signed=x&Offset=zzz")
    assert answer.status == 200
    assert answer.body == b"hello"


@rule("L1")
@case("invalid-live-mode-400")
@each("mode", ["websocket", "longpoll", "LONG-POLL", "sse2"])
@stricter("section 5.6 has 400 for invalid parameters, but no sentence says which values of live are")
def test_an_unknown_live_mode_is_400(server: Server, mode: str) -> None:
    """An unknown live mode is 400."""
    stream = server.stream("text/plain", b"x")
    assert stream.get("-1", live=mode).status == 400
