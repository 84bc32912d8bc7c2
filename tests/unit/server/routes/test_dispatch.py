"""From a request to its answer: rules A2, C2, G3, G6, G7, H3, P2, X1, X2."""

import asyncio
import json
import logging
import os
import threading

import pytest

from millstream.protocol import caching
from millstream.protocol.http import Reply
from millstream.protocol.offsets import format_offset
from millstream.server.request import Request
from millstream.store.memory import MemoryEngine
from millstream.store.pending import settled
from millstream.store.table import Table
from unit.server.bench import Bench, code, header


def test_a_missing_stream_says_so_before_anything_else() -> None:
    """A2."""
    bench = Bench()
    assert bench.reply("POST", "/s").status == 404
    assert bench.reply("POST", "/s", b"{", content_type="application/json").status == 404
    assert bench.reply("POST", "/s", b"x", producer_id="p").status == 404
    bench.reply("PUT", "/s")
    bench.reply("PUT", "/fork", stream_forked_from="/s")
    bench.reply("DELETE", "/s")
    assert bench.reply("POST", "/s").status == 410


@pytest.mark.parametrize(
    ("headers", "location"),
    [
        ({}, "http://h/a%20b"),
        ({"host": "example.org:8080"}, "http://example.org:8080/a%20b"),
        ({"x_forwarded_proto": "https", "x_forwarded_host": "public"}, "http://h/a%20b"),
    ],
)
def test_a_location_is_an_absolute_url(headers: dict[str, str], location: str) -> None:
    """C2: of the host that was asked; forwarded headers are not believed."""
    assert header(Bench().reply("PUT", "/a%20b", **headers), "location") == location


def test_forwarded_headers_are_believed_when_told_to() -> None:
    """C2."""
    bench = Bench(trust_forwarded=True)
    forwarded = {"x_forwarded_proto": "https, http", "x_forwarded_host": "public.example, inner"}
    assert header(bench.reply("PUT", "/a", **forwarded), "location") == "https://public.example/a"
    assert header(bench.reply("PUT", "/b"), "location") == "http://h/b"


def test_streams_live_below_the_mount_prefix() -> None:
    """P1."""
    bench = Bench(path="/v1/stream")
    created = bench.reply("PUT", "/v1/stream/a", b"x")
    assert (created.status, header(created, "location")) == (201, "http://h/v1/stream/a")
    assert bench.reply("GET", "/v1/stream/a").body == b"x"
    assert bench.reply("GET", "/v1/%73tream/a").body == b"x"
    for path in ("/a", "/v1/stream", "/v1/streams/a", "/v1"):
        assert bench.reply("GET", path).status == 404
    assert bench.reply("GET", "/v1/stream/").status == 400
    listed = json.loads(bench.reply("GET", "/v1/stream/__ds/streams").body)["streams"]
    assert [stream["path"] for stream in listed] == ["/a"]


def test_a_fork_names_its_source_by_its_whole_path() -> None:
    """F1, P1."""
    bench = Bench(path="/v1/stream")
    bench.reply("PUT", "/v1/stream/a", b"x")
    assert bench.reply("PUT", "/v1/stream/b", stream_forked_from="/v1/stream/a").status == 201
    assert bench.reply("PUT", "/v1/stream/c", stream_forked_from="/a").status == 404
    assert bench.reply("GET", "/v1/stream/b").body == b"x"


@pytest.mark.parametrize(
    "path",
    [
        "/__ds",
        "/__ds/",
        "/__ds/other",
        "/%5f%5fds/other",
        "//__ds/x",
        "/v1/stream/__ds/other",
        "/__ds/streams/x",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "HEAD"])
def test_the_reserved_segment_is_never_a_stream(method: str, path: str) -> None:
    """P2."""
    assert Bench().reply(method, path, b"x").status == 404


@pytest.mark.parametrize("method", ["COPY", "TRACE", "PROPFIND", "CONNECT"])
def test_a_method_that_makes_no_sense_is_told_which_do(method: str) -> None:
    """H3."""
    reply = Bench().reply(method, "/s")
    assert reply.status == 405
    assert header(reply, "allow") == "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
    assert header(Bench().reply("POST", "/__ds/access", b"x"), "allow") == "GET, HEAD, OPTIONS"
    expected = "GET, HEAD, DELETE, POST, OPTIONS"
    assert header(Bench().reply("PUT", "/__ds/streams", b"x"), "allow") == expected


SMALL, LARGE = b"hello", b"hello " * 1000


@pytest.mark.parametrize("accept_encoding", ["", "gzip"])
@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    "query", ["?offset=-1", "?offset=now", f"?limit=2000&until={format_offset(3000).decode()}", "?offset=x"]
)
def test_a_head_has_the_headers_of_its_get(query: str, body: bytes, accept_encoding: str) -> None:
    """X1."""
    bench = Bench(max_chunk_bytes=4000)
    bench.reply("PUT", "/s", body)
    got = bench.reply("GET", f"/s{query}", accept_encoding=accept_encoding)
    asked = bench.reply("HEAD", f"/s{query}", accept_encoding=accept_encoding)
    assert (asked.status, sorted(asked.headers)) == (got.status, sorted(got.headers))


def test_a_head_without_parameters_describes_the_stream() -> None:
    """G8, X1."""
    bench = Bench()
    bench.reply("PUT", "/s", b"hello", stream_ttl="60")
    reply = bench.reply("HEAD", "/s")
    assert (header(reply, "stream-ttl"), header(reply, "cache-control")) == ("60", "no-store")
    assert header(reply, "millstream-extensions") is not None


def test_an_answer_is_never_older_than_the_stream() -> None:
    """G1: whatever is kept of recent answers."""
    bench = Bench()
    bench.reply("PUT", "/s", b"a")
    urls = ["/s", "/s?offset=-1", "/s?offset=now", f"/s?offset={format_offset(1).decode()}"]

    def bodies() -> list[bytes]:
        answers = [bench.reply("GET", url) for _ in range(2) for url in urls]
        assert answers[:4] == answers[4:]
        return [answer.body for answer in answers[:4]]

    assert bodies() == [b"a", b"a", b"", b""]
    bench.reply("POST", "/s", b"b")
    assert bodies() == [b"ab", b"ab", b"", b"b"]
    assert header(bench.reply("GET", "/s"), "stream-closed") is None
    bench.reply("POST", "/s", stream_closed="true")
    assert {header(bench.reply("GET", url), "stream-closed") for url in urls} == {"true"}
    bench.reply("DELETE", "/s")
    assert {bench.reply("GET", url).status for url in urls} == {404}
    bench.reply("PUT", "/s", b"new")
    assert bodies() == [b"new", b"new", b"", b"ew"]


def test_a_kept_answer_is_not_given_to_whoever_asks_differently() -> None:
    """G3, G6."""
    bench = Bench()
    bench.reply("PUT", "/s", b"a")
    public = bench.reply("GET", "/s")
    private = bench.reply("GET", "/s", authorization="Bearer x")
    assert header(public, "cache-control") == "public, max-age=60, stale-while-revalidate=300"
    assert header(private, "cache-control") == "private, max-age=60, stale-while-revalidate=300"
    tag = header(public, "etag") or ""
    assert bench.reply("GET", "/s", if_none_match=tag).status == 304
    assert bench.reply("GET", "/s", if_none_match='"x"').status == 200
    assert bench.reply("GET", "/s").status == 200


def test_a_kept_answer_does_not_outlive_a_ttl() -> None:
    """F4, G8."""
    bench = Bench()
    bench.reply("PUT", "/s", b"a", stream_ttl="10")
    for _ in range(3):
        bench.now_ms += 9_000
        assert bench.reply("GET", "/s").status == 200
    bench.now_ms += 10_000
    assert bench.reply("GET", "/s").status == 404


def test_a_wall_clock_that_is_set_back_does_not_stop_anybody() -> None:
    """H4."""
    bench = Bench(rate_per_address=1000)
    for hours in (0, -1, 24, -24):
        bench.now_ms += hours * 3_600_000
        for path, status in ((b"/s", 404), (b"/__ds/streams", 200)):
            answer = bench.routes.handle(Request(b"GET", path, b"", {}, b"", client=b"192.0.2.1"))
            assert isinstance(answer, Reply)
            assert answer.status == status


def test_a_listing_shows_what_there_is_page_by_page() -> None:
    """X2."""
    bench = Bench()
    for name in ("/a/1", "/a/2", "/b"):
        bench.reply("PUT", name, b"hello", stream_ttl="60")
    bench.reply("PUT", "/fork", stream_forked_from="/b")
    page = json.loads(bench.reply("GET", "/__ds/streams?limit=1").body)
    assert page["cursor"] == "/a/1"
    assert page["streams"] == [
        {
            "path": "/a/1",
            "contentType": "text/plain",
            "tail": format_offset(5).decode(),
            "closed": False,
            "bytes": 5,
            "createdMs": bench.now_ms,
            "lastWriteMs": bench.now_ms,
            "firstTime": "2030-01-01T00:00:00.000Z",
            "lastTime": "2030-01-01T00:00:00.000Z",
            "ttlSeconds": 60,
            "expiresMs": bench.now_ms + 60_000,
            "retainBytes": None,
            "retainSeconds": None,
            "forkedFrom": None,
            "inheritedBytes": 0,
            "attributes": {},
            "incarnation": header(bench.reply("HEAD", "/a/1"), "stream-incarnation"),
        }
    ]
    rest = json.loads(bench.reply("GET", "/v1/stream/__ds/streams?cursor=%2Fa%2F1").body)
    assert [stream["path"] for stream in rest["streams"]] == ["/a/2", "/b", "/fork"]
    assert rest["streams"][-1]["forkedFrom"] == "/b"
    assert rest["cursor"] is None
    chosen = json.loads(bench.reply("GET", "/__ds/streams?prefix=/a&glob=/*/2").body)
    assert [stream["path"] for stream in chosen["streams"]] == ["/a/2"]


def test_a_listing_shows_the_last_write_and_what_a_fork_inherited() -> None:
    """X2."""
    bench = Bench()
    bench.reply("PUT", "/source", b"hello")
    created_ms = bench.now_ms
    bench.now_ms += 5_000
    bench.reply("PUT", "/source/fork", stream_forked_from="/source")
    bench.now_ms += 5_000
    bench.reply("POST", "/source/fork", b"abc")
    source, fork = json.loads(bench.reply("GET", "/__ds/streams").body)["streams"]
    assert (source["lastWriteMs"], source["inheritedBytes"]) == (created_ms, 0)
    assert (fork["createdMs"], fork["lastWriteMs"]) == (created_ms + 5_000, created_ms + 10_000)
    assert (fork["bytes"], fork["inheritedBytes"], fork["forkedFrom"]) == (3, 5, "/source")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limit=-1", "prefix=%ff", "glob=a&glob=b"]
)
def test_a_malformed_listing_is_refused(query: str) -> None:
    """X2."""
    assert Bench().reply("GET", f"/__ds/streams?{query}").status == 400


def test_a_failure_of_ours_is_an_answer_without_details(caplog: pytest.LogCaptureFixture) -> None:
    """H2."""

    class BrokenStore(Table):
        def head(self, name: str, now_ms: int) -> None:  # type: ignore[override]  # it is broken
            raise ZeroDivisionError("secret")

    with caplog.at_level(logging.CRITICAL, "millstream"):
        reply = Bench(BrokenStore(MemoryEngine())).reply("HEAD", "/s")
    assert (reply.status, code(reply)) == (500, "INTERNAL_ERROR")
    assert b"secret" not in reply.body


def test_a_request_without_anything_special_is_public() -> None:
    """G6."""
    request = Request(b"GET", b"/s", b"", {}, b"")
    assert request.cache_control == caching.PUBLIC


def test_a_large_answer_is_compressed_beside_the_loop() -> None:
    """G5."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", b"x" * 500_000)
        reply = await bench.wait("/s", accept_encoding="gzip")
        assert isinstance(reply, Reply)
        assert header(reply, "content-encoding") == "gzip"
        assert len(reply.body) < 5_000

    asyncio.run(main())


@pytest.mark.parametrize("setting", [True, False])
def test_compression_can_be_turned_off(setting: bool) -> None:
    """G5."""
    bench = Bench(compress=setting)
    bench.reply("PUT", "/s", b"x" * 2000)
    reply = bench.reply("GET", "/s", accept_encoding="gzip")
    assert (header(reply, "content-encoding") == "gzip") is setting


def test_compression_leaves_a_processor_to_the_event_loop() -> None:
    """H4: however many large responses are compressed at once."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/s", b"some text " * 20_000)
        before = set(threading.enumerate())
        answers = [bench.ask("GET", "/s", accept_encoding="gzip") for _ in range(50)]
        threads = set(threading.enumerate()) - before
        assert 1 <= len(threads) <= max(1, (os.cpu_count() or 1) - 1)
        replies = [await settled(answer) for answer in answers]
        assert all(dict(reply.headers)[b"content-encoding"] == b"gzip" for reply in replies)
        await bench.routes.close()

    asyncio.run(main())
