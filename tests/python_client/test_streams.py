"""Handles and responses through the wire: what the closure cases do not cover."""

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import millstream
from millstream import (
    AlreadyConsumedError,
    BadRequestError,
    ContentTypeMismatchError,
    PayloadTooLargeError,
    ProducerStamp,
    SequenceConflictError,
    SequenceGapError,
    StaleEpochError,
    StreamExistsError,
    StreamGoneError,
    StreamNotFoundError,
    TransportError,
)
from python_client.faulty_proxy import FaultyProxy
from running import Server, free_port

JSON = "application/json"
EVERY_BYTE = bytes(range(256)) * 3
LIVES = [False, True, "long-poll", "sse"]


def test_head_tells_everything(shell: Any, any_url: str) -> None:
    shell.DurableStream.create(any_url, content_type="text/plain", ttl_seconds=3600).append("hi")
    found = shell.DurableStream.head(any_url)
    assert (found.exists, found.content_type, found.ttl_seconds) == (True, "text/plain", 3600)
    assert (found.expires_at, found.stream_closed) == (None, False)
    assert (found.retain_bytes, found.retain_seconds, found.earliest_offset) == (None, None, None)
    assert shell.DurableStream.connect(any_url).content_type == "text/plain"


def test_a_stream_keeps_what_it_was_created_to_keep_and_tells_where_it_begins(shell: Any, url: str) -> None:
    """Rules X4, O4."""
    limits = {"content_type": "text/plain", "retain_bytes": 100, "retain_seconds": 3600}
    log = shell.DurableStream.create(url, **limits)
    found = log.head()
    assert (found.retain_bytes, found.retain_seconds) == (100, 3600)
    assert found.earliest_offset == found.offset
    for number in range(10):
        log.append(f"{number:050}")
    deadline_s = time.monotonic() + 60
    while (begins := log.head().earliest_offset) == found.earliest_offset:
        assert time.monotonic() < deadline_s, "the stream dropped nothing"
        time.sleep(0.05)
    with pytest.raises(StreamGoneError, match=begins) as gone:
        shell.stream(url, offset=found.offset, live=False)
    assert (gone.value.code, gone.value.earliest_offset) == ("OFFSET_GONE", begins)
    assert pickle.loads(pickle.dumps(gone.value)).earliest_offset == begins
    kept = shell.stream(url, offset=begins, live=False).read_text()
    assert len(kept) >= 100
    assert kept.endswith(f"{9:050}")
    shell.DurableStream.create(url, **limits)
    with pytest.raises(StreamExistsError):
        shell.DurableStream.create(url, content_type="text/plain", retain_bytes=200)
    with pytest.raises(BadRequestError, match="Stream-Retain-Seconds is at least 1"):
        shell.DurableStream.create(f"{url}-none", retain_seconds=0)


def test_a_stream_that_is_not_there_is_told_with_its_path(shell: Any, any_url: str) -> None:
    path = any_url.rsplit("/", 1)[1]
    for ask in (
        shell.DurableStream(any_url).head,
        shell.DurableStream(any_url).delete,
        lambda: shell.DurableStream.connect(any_url),
        lambda: shell.DurableStream(any_url, content_type="text/plain").append("x"),
        lambda: shell.DurableStream(any_url).append("x"),
        lambda: shell.DurableStream(any_url).close(),
        lambda: shell.stream(any_url),
        lambda: shell.stream(any_url, live="long-poll", offset="now"),
        lambda: shell.stream(any_url, live="sse"),
    ):
        with pytest.raises(StreamNotFoundError, match=path):
            ask()


def test_creating_again_is_fine_and_creating_otherwise_is_not(shell: Any, any_url: str) -> None:
    shell.DurableStream.create(any_url, content_type="text/plain")
    shell.DurableStream.create(any_url, content_type="text/plain")
    with pytest.raises(StreamExistsError):
        shell.DurableStream.create(any_url, content_type=JSON)
    shell.DurableStream.delete(any_url)
    shell.DurableStream.create(any_url, content_type=JSON)


@pytest.mark.parametrize("live", LIVES)
def test_every_byte_comes_out_as_it_went_in(shell: Any, any_url: str, live: Any) -> None:
    stream = shell.DurableStream.create(any_url)
    stream.append(EVERY_BYTE)
    stream.append(b"\r\n\xff")
    stream.close(b"\0")
    with stream.stream(live=live) as response:
        assert response.read_bytes() == EVERY_BYTE + b"\r\n\xff\0"


@pytest.mark.parametrize("live", LIVES)
def test_text_comes_in_whole_characters(shell: Any, url: str, live: Any) -> None:
    stream = shell.DurableStream.create(url, content_type="text/plain")
    encoded = "Grüße 🌾 ok".encode()
    for position in range(0, len(encoded), 3):
        stream.append(encoded[position : position + 3])
    stream.close()
    with stream.stream(live=live) as response:
        assert "".join(response.iter_text()) == "Grüße 🌾 ok"


def test_messages_keep_their_shape(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    values = [[1, 2], "text", None, {"deep": [[[]]]}, 2**53 - 1, 1.5, []]
    for value in values:
        stream.append(value)
    stream.append(b'{"raw":1}')
    assert stream.append_all(iter(values)) is not None
    assert stream.append_all([]) is None
    assert shell.stream(any_url, live=False).read_json() == [*values, {"raw": 1}, *values]


def test_appends_with_a_sequence_must_rise(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type="text/plain")
    stream.append("a", seq="001")
    stream.append("b", seq="002")
    with pytest.raises(SequenceConflictError):
        stream.append("c", seq="002")


def test_appends_with_another_content_type_are_refused(shell: Any, any_url: str) -> None:
    shell.DurableStream.create(any_url, content_type="text/plain")
    with pytest.raises(ContentTypeMismatchError):
        shell.DurableStream(any_url, content_type="application/octet-stream").append(b"x")


def test_a_stamped_append_is_stored_once(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type="text/plain")
    first = stream.append("a", producer=ProducerStamp("p", 1, 0))
    again = stream.append("a", producer=ProducerStamp("p", 1, 0))
    assert (first.duplicate, again.duplicate) == (False, True)
    with pytest.raises(SequenceGapError) as gap:
        stream.append("c", producer=ProducerStamp("p", 1, 2))
    assert (gap.value.expected, gap.value.received) == (1, 2)
    with pytest.raises(StaleEpochError) as stale:
        stream.append("c", producer=ProducerStamp("p", 0, 0))
    assert stale.value.current_epoch == 1
    assert shell.stream(any_url, live=False).read_text() == "a"


def test_a_fork_begins_with_its_source(shell: Any, any_url: str) -> None:
    source = shell.DurableStream.create(any_url, content_type=JSON)
    source.append_all([1, 2])
    middle = source.head().offset
    source.append(3)
    path = any_url.split("/", 3)[3]
    fork = source.fork(f"/{path}-fork", offset=middle)
    fork.append("mine")
    part = source.fork(f"{any_url}-part", offset=middle, sub_offset=1, ttl_seconds=60)
    assert fork.stream(live=False).read_json() == [1, 2, "mine"]
    assert part.stream(live=False).read_json() == [1, 2, 3]
    assert source.stream(live=False).read_json() == [1, 2, 3]
    source.delete()
    with pytest.raises(StreamGoneError):
        source.head()
    with pytest.raises(ValueError, match="absolute path"):
        fork.fork("relative")


def test_a_response_is_read_once(shell: Any, url: str) -> None:
    shell.DurableStream.create(url, content_type=JSON, body=[1], closed=True)
    with shell.stream(url) as response:
        response.read_json()
        with pytest.raises(AlreadyConsumedError, match="read_bytes came after read_json"):
            response.read_bytes()


def test_a_response_tells_where_it_is(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    tail = stream.append(1).next_offset
    with shell.stream(any_url, live=False) as response:
        assert (response.url, response.live, response.start_offset) == (any_url, False, "-1")
        assert (response.status, response.content_type) == (200, JSON)
        response.read_json()
        assert (response.offset, response.headers["stream-next-offset"]) == (tail, tail)
    with shell.stream(any_url, offset=tail, live=False) as response:
        assert response.read_json() == []


def test_reading_from_now_sees_only_what_follows(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    stream.append("before")
    writer = millstream.DurableStream(any_url, content_type=JSON)
    for live in (True, "long-poll", "sse"):
        timer = threading.Timer(0.1, lambda: writer.append("after"))
        timer.start()
        with shell.stream(any_url, offset="now", live=live) as response:
            assert next(iter(response.iter_json())) == "after"
        timer.join()


def test_a_bad_offset_is_told(shell: Any, any_url: str) -> None:
    shell.DurableStream.create(any_url)
    with pytest.raises(BadRequestError):
        shell.stream(any_url, offset="not an offset")
    with pytest.raises(ValueError, match="offset"):
        shell.stream(any_url, offset="")


def test_on_error_may_repair_and_go_on(shell: Any, url: str) -> None:
    def repair(error: Exception) -> dict[str, Any]:
        assert isinstance(error, StreamNotFoundError)
        millstream.DurableStream.create(url, content_type=JSON, body=[1], closed=True)
        return {}

    for live in (True, "sse"):
        with shell.stream(url, live=live, on_error=repair) as response:
            assert list(response.iter_json()) == [1]
        millstream.DurableStream.delete(url)


def test_an_unchanged_stream_is_not_sent_again(shell: Any, server: Server, url: str) -> None:
    millstream.DurableStream.create(url, body=b"x" * 100_000)
    with FaultyProxy(server.url) as proxy:
        stream = shell.DurableStream(f"{proxy.url}/{url.split('/', 3)[3]}")
        for _ in range(3):
            assert len(stream.stream(live=False).read_bytes()) == 100_000
        asked = [request.headers.get("if-none-match") for request in proxy.seen if request.method == "GET"]
        assert asked[0] is None
        assert asked[1] == asked[2] != None  # noqa: E711 (a chain)
        millstream.DurableStream(url, content_type="application/octet-stream").append(b"more")
        assert len(stream.stream(live=False).read_bytes()) == 100_004


def test_appends_made_while_one_is_under_way_travel_together(server: Server, url: str) -> None:
    millstream.DurableStream.create(url, content_type=JSON)
    with FaultyProxy(server.url) as proxy, ThreadPoolExecutor(16) as pool:
        stream = millstream.DurableStream(f"{proxy.url}/{url.split('/', 3)[3]}", content_type=JSON)
        results = list(pool.map(stream.append, range(400)))
    posts = len(proxy.seen)
    assert sorted(millstream.stream(url, live=False).read_json()) == list(range(400))
    assert posts < 200, f"{posts} requests for 400 appends"
    assert len({result.next_offset for result in results}) == posts


def test_a_batch_that_fails_fails_for_everyone_in_it(url: str) -> None:
    stream = millstream.DurableStream.create(url, content_type=JSON)
    stream.close()
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(stream.append, number) for number in range(40)]
        assert all(isinstance(future.exception(), millstream.StreamClosedError) for future in futures)


def test_a_server_that_is_not_there_is_a_transport_error(shell: Any) -> None:
    url = f"http://127.0.0.1:{free_port()}/s"
    quick = millstream.Retry(initial_delay_s=0.01, max_total_s=0.2)
    with pytest.raises(TransportError, match="Could not connect") as caught:
        shell.DurableStream(url, content_type="text/plain", retry=quick).append("x")
    assert (caught.value.unsent, caught.value.code) == (True, "NETWORK_ERROR")


def test_silence_is_a_timeout(shell: Any) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/s"
        started = time.monotonic()
        with pytest.raises(TransportError, match=r"No answer in 0\.3 s") as caught:
            shell.DurableStream(url, timeout=0.3, retry=None).head()
    assert (caught.value.unsent, caught.value.code) == (False, "TIMEOUT")
    assert time.monotonic() - started < 15  # not the 30 s of a client that did not get the answer


def test_compressed_answers_are_read(shell: Any, url: str) -> None:
    text = "all work and no play\n" * 5000
    shell.DurableStream.create(url, content_type="text/plain", body=text)
    with shell.stream(url, live=False, headers={"Accept-Encoding": "gzip"}) as response:
        assert response.read_text() == text
        assert response.headers["content-encoding"] == "gzip"


def test_subscribers_hold_back_what_follows(shell: Any, url: str) -> None:
    """The next batch is not read before the callback returns."""
    stream = shell.DurableStream.create(url, content_type=JSON)
    stream.append(0)
    writer = millstream.DurableStream(url, content_type=JSON)
    seen: list[list[int]] = []

    def slow(batch: Any) -> None:
        seen.append(batch.items)
        if len(seen) == 1:
            writer.append_all([1])
            writer.append_all([2])
            writer.close()

    with shell.stream(url) as response:
        response.subscribe_json(slow).wait(60)
    assert seen[0] == [0]
    assert [item for items in seen for item in items] == [0, 1, 2]
    assert len(seen) == 2, "what came while the callback ran should come together"


def test_the_refusal_of_a_body_that_the_server_does_not_read_is_heard(shell: Any, url: str) -> None:
    """The server answers 413 by the length alone, while the client is still sending."""
    stream = shell.DurableStream.create(url, content_type="text/plain")
    with pytest.raises(PayloadTooLargeError):
        stream.append(b"x" * 40_000_000)
    assert stream.append("small").next_offset.endswith("5")


def test_an_error_in_a_callback_reaches_who_waits(shell: Any, url: str) -> None:
    shell.DurableStream.create(url, content_type=JSON, body=[1])

    def broken(batch: Any) -> None:
        raise LookupError("mine")

    with shell.stream(url) as response:
        subscription = response.subscribe_json(broken)
        with pytest.raises(LookupError, match="mine"):
            subscription.wait(60)
        assert subscription.done
