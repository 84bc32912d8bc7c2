"""Recent responses: made once for all who ask the same, and never served after a change."""

import asyncio
import dataclasses
import gzip
from collections.abc import Callable
from typing import Any

import pytest

from millstream.protocol import cursors
from millstream.protocol.http import Reply
from millstream.server.live.response_cache import ResponseCache
from unit.server.bench import Bench, bench_with_stream, header

TEXT = b"abcd" * 512  # 2 KiB, worth compressing


def in_loop(check: Callable[[Bench], None], **settings: Any) -> None:
    async def main() -> None:
        check(bench_with_stream(**settings))

    asyncio.run(main())


def test_a_response_is_kept_when_it_is_made_for_the_second_time() -> None:
    """Most reads are never repeated, and must not pay for those that are."""

    def check(bench: Bench) -> None:
        bench.reply("POST", "/s", b"hello")
        first, second, third, fourth = (bench.reply("GET", "/s?offset=-1") for _ in range(4))
        assert first == second
        assert third is fourth
        assert (third.headers, third.body) == (first.headers, first.body)

    in_loop(check)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "change",
    [
        ("POST", b"more", {}),
        ("POST", b"", {"stream_closed": "true"}),
        ("PATCH", b"", {"stream_attributes": '{"a":"b"}'}),
        ("DELETE", b"", {}),
    ],
    ids=["append", "close", "patch", "delete"],
)
def test_a_change_drops_the_responses_of_its_stream(
    method: str, change: tuple[str, bytes, dict[str, str]]
) -> None:
    """Whatever has changed, the next answer is the one that a server without a memory would give."""

    def check(bench: Bench) -> None:
        bench.reply("POST", "/s", TEXT)
        for _ in range(3):
            bench.reply(method, "/s")
        how, body, fields = change
        bench.reply(how, "/s", body, **fields)
        after = [bench.reply(method, "/s") for _ in range(4)]
        bench.live.responses.clear()
        fresh = bench.reply(method, "/s")
        assert all(
            (one.status, one.headers, one.body) == (fresh.status, fresh.headers, fresh.body) for one in after
        )

    in_loop(check)


def test_long_responses_are_kept_by_the_codings_that_are_accepted() -> None:
    """G5: who accepts no coding never gets one, and the other way round."""

    def check(bench: Bench) -> None:
        bench.reply("POST", "/s", TEXT)
        for _ in range(4):
            plain = bench.reply("GET", "/s?offset=-1")
            packed = bench.reply("GET", "/s?offset=-1", accept_encoding="gzip")
            refused = bench.reply("GET", "/s?offset=-1", accept_encoding="identity")
            assert plain.body == refused.body == TEXT
            assert isinstance(packed.body, bytes)
            assert gzip.decompress(packed.body) == TEXT
            assert header(packed, "content-encoding") == "gzip"
            assert {header(reply, "vary") for reply in (plain, packed, refused)} == {"accept-encoding"}
        assert packed is bench.reply("GET", "/s?offset=-1", accept_encoding="gzip")

    in_loop(check)


def test_a_conditional_read_is_answered_by_its_condition() -> None:
    """G3: also while the response to the unconditional one is kept."""

    def check(bench: Bench) -> None:
        bench.reply("POST", "/s", b"hello")
        for method in ("GET", "HEAD"):
            replies = [bench.reply(method, "/s") for _ in range(3)]
            tag = header(replies[0], "etag") or ""
            assert [bench.reply(method, "/s", if_none_match=tag).status for _ in range(3)] == [304] * 3
            assert bench.reply(method, "/s", if_none_match='"other"').status == 200
            assert bench.reply(method, "/s").status == 200

    in_loop(check)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_stream_that_expires_is_asked_every_time(method: str) -> None:
    """G8: a read renews a TTL, and after the end there is nothing to read."""

    async def main() -> None:
        bench = Bench()
        bench.reply("PUT", "/t", b"x", stream_ttl="10")
        for _ in range(4):
            assert bench.reply(method, "/t").status == 200
        bench.now_ms += 10_001
        assert bench.reply(method, "/t").status == 404

    asyncio.run(main())


def test_long_polls_that_wait_at_the_same_offset_get_the_same_answer() -> None:
    """L2: made for the first ones that are woken, and shared by all others."""

    async def main() -> None:
        bench = bench_with_stream()
        polls = [bench.wait("/s?offset=now&live=long-poll") for _ in range(100)]
        bench.reply("POST", "/s", b"hello")
        replies = [await poll for poll in polls]
        assert {reply.body for reply in replies} == {b"hello"}
        assert len({id(reply) for reply in replies}) <= 3

    asyncio.run(main())


def test_long_polls_share_no_answer_with_another_cursor() -> None:
    """L3: a client never gets its own cursor back."""

    async def main() -> None:
        bench = bench_with_stream()
        cursor = cursors.current_cursor(bench.now_ms)
        sent = [cursor - 1, cursor, cursor + 5] * 10
        polls = [bench.wait(f"/s?offset=-1&live=long-poll&cursor={one}") for one in sent]
        bench.reply("POST", "/s", b"hello")
        for one, poll in zip(sent, polls, strict=True):
            assert int(header(await poll, "stream-cursor") or 0) > one
        for one in sent:
            reply = bench.reply("GET", f"/s?offset=-1&live=long-poll&cursor={one}")
            assert int(header(reply, "stream-cursor") or 0) > one

    asyncio.run(main())


def test_an_answer_of_an_earlier_interval_is_not_given_again() -> None:
    """L3: the cursor is that of now."""

    def check(bench: Bench) -> None:
        bench.reply("POST", "/s", b"hello")
        for _ in range(3):
            for _ in range(3):
                reply = bench.reply("GET", "/s?offset=-1&live=long-poll")
                assert header(reply, "stream-cursor") == str(cursors.current_cursor(bench.now_ms))
            bench.now_ms += cursors.INTERVAL_MS

    in_loop(check)


def test_a_long_poll_never_gets_an_answer_about_another_stream_of_the_same_name() -> None:
    """L6: its stream was deleted, whatever has been created since."""

    async def main() -> None:
        bench = bench_with_stream()
        old = [bench.wait("/s?offset=-1&live=long-poll") for _ in range(40)]
        bench.reply("DELETE", "/s")
        bench.reply("PUT", "/s", content_type="text/plain")
        new = [bench.wait("/s?offset=-1&live=long-poll") for _ in range(40)]
        bench.reply("POST", "/s", b"new")
        assert {(await poll).status for poll in old} == {404}
        assert {(await poll).body for poll in new} == {b"new"}

    asyncio.run(main())


def test_a_time_that_is_counted_from_the_request_is_looked_for_every_time() -> None:
    """X7."""

    def check(bench: Bench) -> None:
        bench.reply("POST", "/s", b"hello")
        assert [bench.reply("GET", "/s?offset=time:-10s").body for _ in range(4)] == [b"hello"] * 4
        bench.now_ms += 11_000
        assert bench.reply("GET", "/s?offset=time:-10s").body == b""

    in_loop(check)


def test_what_is_kept_is_bounded() -> None:
    cache = ResponseCache()
    for number in range(1000):
        for _ in range(2):
            cache.keep(f"/{number}", number, Reply(200, [], bytes(60_000)), 1)
    kept = [cache.find(number) for number in range(1000)]
    assert 0 < sum(len(reply.body) for reply in kept if reply is not None) <= 17 * 2**20
    for _ in range(2):
        cache.keep("/long", "long", Reply(200, [], bytes(70_000)), 1)
    assert cache.find("long") is None
    for number in range(10_000, 10_100):
        for _ in range(2):
            cache.keep("/many", number, Reply(200, []), 1)
    assert len(cache.keys["/many"]) <= 32
    for number in range(1000):
        cache.forget(f"/{number}")
    cache.forget("/many")
    assert not cache.keys
    assert cache._kept_bytes == 0


def test_other_settings_drop_everything() -> None:
    """A server that no longer compresses sends nothing that it has compressed before."""

    def check(bench: Bench) -> None:
        bench.reply("POST", "/s", TEXT)
        for _ in range(3):
            assert header(bench.reply("GET", "/s", accept_encoding="gzip"), "content-encoding") == "gzip"
        settings = dataclasses.replace(bench.routes.settings, compress=False)
        bench.routes.adopt(settings, bench.routes.auth)
        assert bench.reply("GET", "/s", accept_encoding="gzip").body == TEXT

    in_loop(check)
