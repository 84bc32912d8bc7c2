"""Producers through the wire."""

import asyncio
import threading
import time
from typing import Any

import pytest

import millstream
import millstream.aio
from millstream import ProducerStoppedError, Retry, StaleEpochError, StreamClosedError, TransportError
from python_client.faulty_proxy import Fault, FaultyProxy
from python_client.shells import RunAsync
from running import Server

JSON = "application/json"
IMPATIENT = Retry(initial_delay_s=0.001, max_total_s=0.05)


def test_messages_are_batched_and_in_order(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    producer = shell.IdempotentProducer(stream, "p", max_batch_bytes=500)
    for number in range(1000):
        producer.append(number)
    producer.flush()
    assert (producer.pending_count, producer.in_flight_count) == (0, 0)
    assert 5 < producer.next_seq < 100
    assert producer.last_offset == stream.head().offset
    producer.detach()
    assert shell.stream(any_url, live=False).read_json() == list(range(1000))


def test_a_message_does_not_wait_longer_than_it_lingers(url: str) -> None:
    """Nobody flushes, and still it arrives."""
    stream = millstream.DurableStream.create(url, content_type=JSON)
    producer = millstream.IdempotentProducer(stream, "p", linger_ms=5)
    with producer, millstream.stream(url) as response:
        producer.append("soon")
        assert next(response.iter_json()) == "soon"


def test_an_async_message_does_not_wait_longer_than_it_lingers(url: str, run_async: RunAsync) -> None:
    async def go() -> None:
        stream = await millstream.aio.DurableStream.create(url, content_type=JSON)
        producer = millstream.aio.IdempotentProducer(stream, "p", linger_ms=5)
        async with producer, asyncio.timeout(5), stream.stream() as response:
            await producer.append("soon")
            async for message in response.iter_json():
                assert message == "soon"
                break

    run_async(go())


def test_what_waits_while_a_request_is_in_flight_shares_the_next(
    shell: Any, server: Server, url: str
) -> None:
    """Without lingering, too: the first is sent at once, and the others do not make a request each."""
    millstream.DurableStream.create(url, content_type=JSON)
    answers = threading.Event()

    def hold(request: Any) -> None:
        answers.wait(60)

    with FaultyProxy(server.url, choose=hold) as proxy:
        stream = shell.DurableStream(f"{proxy.url}/{url.split('/', 3)[3]}", content_type=JSON)
        producer = shell.IdempotentProducer(stream, "p", linger_ms=0)
        for number in range(1000):
            producer.append(number)
        answers.set()
        producer.detach()
        assert len(proxy.seen) < 20, len(proxy.seen)
    assert shell.stream(url, live=False).read_json() == list(range(1000))


def test_two_first_appends_at_once_share_a_producer(url: str, run_async: RunAsync) -> None:
    """The stream's type is not known yet: both wait for it."""

    async def go() -> None:
        await millstream.aio.DurableStream.create(url, content_type=JSON)
        producer = millstream.aio.IdempotentProducer(millstream.aio.DurableStream(url), "p", linger_ms=20)
        await asyncio.gather(*(producer.append(number) for number in range(10)))
        async with asyncio.timeout(20):
            await producer.detach()

    run_async(go())
    assert sorted(millstream.stream(url, live=False).read_json()) == list(range(10))


def test_what_a_closed_or_detached_producer_is_asked_is_refused(shell: Any, url: str) -> None:
    stream = shell.DurableStream.create(url, content_type=JSON)
    for stop in ("detach", "close"):
        producer = shell.IdempotentProducer(stream, stop)
        producer.append(1)
        getattr(producer, stop)()
        getattr(producer, stop)()
        with pytest.raises(ProducerStoppedError, match=stop):
            producer.append(2)
        with pytest.raises(ProducerStoppedError):
            producer.flush()


def test_a_failure_is_told_once_and_raised_from_then_on(shell: Any, url: str) -> None:
    stream = shell.DurableStream.create(url, content_type=JSON)
    reported: list[Exception] = []
    producer = shell.IdempotentProducer(stream, "p", on_error=reported.append)
    producer.append(1)
    producer.flush()
    stream.close()
    producer.append(2)
    for _ in range(2):
        with pytest.raises(StreamClosedError):
            producer.flush()
    with pytest.raises(StreamClosedError):
        producer.append(3)
    with pytest.raises(StreamClosedError):
        producer.detach()
    producer.detach()
    assert [type(error) for error in reported] == [StreamClosedError]


def test_a_zombie_is_fenced_and_may_restart(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    old = shell.IdempotentProducer(stream, "p", epoch=0)
    old.append("old")
    old.flush()
    new = shell.IdempotentProducer(stream, "p", epoch=1)
    new.append("new")
    new.detach()
    old.append("zombie")
    with pytest.raises(StaleEpochError) as caught:
        old.flush()
    assert caught.value.current_epoch == 1
    old.restart()
    assert (old.epoch, old.next_seq) == (2, 0)
    old.append("again")
    old.detach()
    assert shell.stream(any_url, live=False).read_json() == ["old", "new", "again"]


def test_auto_claim_takes_over_and_keeps_the_order(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    with shell.IdempotentProducer(stream, "p", epoch=5) as first:
        first.append("first")
    with shell.IdempotentProducer(stream, "p", epoch=0, auto_claim=True, max_batch_bytes=1) as second:
        for number in range(20):
            second.append(number)
    assert second.epoch == 6
    assert shell.stream(any_url, live=False).read_json() == ["first", *range(20)]


def test_a_close_whose_answer_was_lost_may_be_repeated(shell: Any, server: Server, url: str) -> None:
    millstream.DurableStream.create(url, content_type=JSON)
    plan = iter([Fault.CUT_AFTER, *[None] * 9])
    with FaultyProxy(server.url, choose=lambda request: next(plan)) as proxy:
        stream = shell.DurableStream(f"{proxy.url}/{url.split('/', 3)[3]}", content_type=JSON)
        producer = shell.IdempotentProducer(stream, "p", retry=None)
        with pytest.raises(TransportError):
            producer.close("end")
        result = producer.close("end")
    with shell.stream(url) as response:
        assert list(response.iter_json()) == ["end"]
        assert response.offset == result.final_offset


def test_a_producer_without_a_network_fails_within_its_total(shell: Any, server: Server, url: str) -> None:
    millstream.DurableStream.create(url, content_type=JSON)
    with FaultyProxy(server.url, choose=lambda request: Fault.CUT_BEFORE) as proxy:
        stream = shell.DurableStream(f"{proxy.url}/{url.split('/', 3)[3]}", content_type=JSON)
        producer = shell.IdempotentProducer(stream, "p", retry=IMPATIENT)
        producer.append(1)
        with pytest.raises(TransportError):
            producer.flush()
        with pytest.raises(TransportError):
            producer.detach()


def test_threads_share_a_producer(url: str) -> None:
    stream = millstream.DurableStream.create(url, content_type=JSON)
    with millstream.IdempotentProducer(stream, "p") as producer:

        def write(writer: int) -> None:
            for number in range(500):
                producer.append([writer, number])

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stored = millstream.stream(url, live=False).read_json()
    assert len(stored) == 2000
    for writer in range(4):
        assert [number for who, number in stored if who == writer] == list(range(500))


def test_an_append_waits_when_too_much_is_waiting(server: Server, url: str) -> None:
    """A server that does not answer must not fill the memory."""
    millstream.DurableStream.create(url)
    blocked = threading.Event()

    def hold(request: Any) -> None:
        blocked.wait(60)

    with FaultyProxy(server.url, choose=hold) as proxy:
        stream = millstream.DurableStream(
            f"{proxy.url}/{url.split('/', 3)[3]}", content_type="application/octet-stream"
        )
        producer = millstream.IdempotentProducer(stream, "p", max_batch_bytes=1000)
        count = 0

        def write() -> None:
            nonlocal count
            for _ in range(1000):
                producer.append(b"x" * 100)
                count += 1

        thread = threading.Thread(target=write)
        thread.start()
        give_up_s = time.monotonic() + 60
        while count <= 100:
            assert time.monotonic() < give_up_s, "so much need not wait"
            time.sleep(0.01)
        thread.join(0.5)  # time for many more, if nothing held it up
        held = count
        blocked.set()
        thread.join(60)
        producer.detach()
    assert 100 < held < 300, held
    assert count == 1000
    assert len(millstream.stream(url, live=False).read_bytes()) == 100_000


def test_leaving_by_an_error_does_not_wait(shell: Any, url: str) -> None:
    stream = shell.DurableStream.create(url, content_type=JSON)
    producer = shell.IdempotentProducer(stream, "p", linger_ms=10_000)
    with pytest.raises(LookupError), producer:
        producer.append(1)
        raise LookupError
