"""Whatever is ended, wherever it is: no task, no thread and no connection is left behind."""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream
import millstream.aio
from millstream.client.http import sync_sockets as sockets
from python_client.shells import RunAsync
from running import Server, free_port
from running import millstream as millstream_server

JSON = "application/json"
LIVES = [True, "long-poll", "sse"]
SOON_S = 10.0  # half of a long-poll: nothing may wait for its end


@pytest.fixture(scope="module")
def slow_server() -> Iterator[Server]:
    """A server whose long-polls outlast every test here."""
    with millstream_server() as server:
        yield server


@pytest.fixture
def quiet_url(slow_server: Server, request: pytest.FixtureRequest) -> str:
    """A stream with one message, on which nothing more happens."""
    url = f"{slow_server.url}/leaks/{time.time_ns()}"
    millstream.DurableStream.create(url, content_type=JSON, body=[1])
    return url


def open_sockets() -> set[str]:
    """The sockets of this process; every test works with its own."""
    found = set()
    for name in Path("/proc/self/fd").iterdir():
        try:
            target = str(name.readlink())
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


def eventually(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SOON_S
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    if not Path("/proc/self/fd").exists():
        pytest.skip("counting sockets needs /proc")
    sockets.shared_client().close()
    before = open_sockets(), set(threading.enumerate())
    yield
    sockets.shared_client().close()
    gc.collect()
    assert eventually(lambda: set(threading.enumerate()) <= before[1]), threading.enumerate()
    assert eventually(lambda: open_sockets() <= before[0]), open_sockets() - before[0]


@pytest.mark.parametrize("live", LIVES)
def test_a_response_is_left_in_the_middle(quiet_url: str, live: Any) -> None:
    with millstream.stream(quiet_url, live=live) as response:
        assert next(response.iter_json()) == 1


@pytest.mark.parametrize("live", LIVES)
def test_a_response_is_forgotten(quiet_url: str, live: Any) -> None:
    assert next(millstream.stream(quiet_url, live=live).iter_json()) == 1


@pytest.mark.parametrize("live", LIVES)
def test_another_thread_cancels_while_one_waits(quiet_url: str, live: Any) -> None:
    response = millstream.stream(quiet_url, live=live)
    timer = threading.Timer(0.2, response.cancel)
    timer.start()
    started = time.monotonic()
    assert list(response.iter_json()) == [1]
    assert time.monotonic() - started < SOON_S
    timer.join()


@pytest.mark.parametrize("live", LIVES)
def test_a_subscription_is_cancelled_while_it_waits(quiet_url: str, live: Any) -> None:
    seen: list[Any] = []
    with millstream.stream(quiet_url, live=live) as response:
        subscription = response.subscribe_json(seen.append)
        assert eventually(lambda: bool(seen))
    assert subscription.done
    assert seen[0].items == [1]


def test_a_wait_before_a_retry_is_cancelled() -> None:
    url = f"http://127.0.0.1:{free_port()}/s"
    patient = millstream.Retry(initial_delay_s=60, max_delay_s=60, max_total_s=600)
    from millstream.client.core.endpoints import Endpoint
    from millstream.client.core.exchanges import Terms
    from millstream.client.core.plans.reading import Reader
    from millstream.client.sync.driving import Drive

    drive = Drive(sockets.shared_client(), Reader(Endpoint(url), Terms(patient)).plan())
    timer = threading.Timer(0.2, drive.scope.cancel)
    timer.start()
    started = time.monotonic()
    drive.next()
    drive.close()
    assert time.monotonic() - started < SOON_S
    timer.join()


def test_a_producer_is_left_with_an_error(quiet_url: str) -> None:
    stream = millstream.DurableStream(quiet_url, content_type=JSON)
    producer = millstream.IdempotentProducer(stream, "p", linger_ms=60_000)
    with pytest.raises(LookupError), producer:
        producer.append(2)
        raise LookupError


def test_a_producer_that_failed_is_forgotten(quiet_url: str) -> None:
    stream = millstream.DurableStream(quiet_url, content_type=JSON)
    with millstream.IdempotentProducer(stream, "p", epoch=1) as producer:
        producer.append(2)
    producer = millstream.IdempotentProducer(stream, "p", epoch=1)
    producer.append(3)
    with pytest.raises(millstream.DuplicateAppendError):
        producer.flush()
    del producer
    gc.collect()  # frees what the loop's last step holds; the next one frees the rest


def test_a_client_of_ones_own_is_forgotten(quiet_url: str, run_async: RunAsync) -> None:
    async def go() -> None:
        before = open_sockets()
        client = millstream.aio.HttpClient()
        await millstream.aio.DurableStream.head(quiet_url, client=client)
        del client
        gc.collect()
        for _ in range(10):  # the loop closes sockets in its next iterations
            await asyncio.sleep(0)
        assert not open_sockets() - before

    run_async(go())


def test_a_producer_is_forgotten_with_messages_in_it(quiet_url: str) -> None:
    producer = millstream.IdempotentProducer(
        millstream.DurableStream(quiet_url, content_type=JSON), "p", linger_ms=60_000
    )
    producer.append(2)
    with pytest.warns(ResourceWarning, match="was garbage-collected with unsent messages"):
        del producer
        gc.collect()


@pytest.mark.parametrize("live", LIVES)
def test_an_async_response_is_left_in_the_middle(quiet_url: str, live: Any, run_async: RunAsync) -> None:
    async def go() -> None:
        async with millstream.aio.stream(quiet_url, live=live) as response:
            async for message in response.iter_json():
                assert message == 1
                break

    run_async(go())


@pytest.mark.parametrize("live", LIVES)
def test_a_task_that_reads_is_cancelled(quiet_url: str, live: Any, run_async: RunAsync) -> None:
    async def read() -> None:
        async with millstream.aio.stream(quiet_url, live=live) as response:
            async for _ in response.iter_json():
                pass

    async def go() -> None:
        before = open_sockets()
        task = asyncio.create_task(read())
        await asyncio.sleep(0.2)
        assert len(open_sockets()) > len(before)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.05)
        assert open_sockets() <= before, "the connection of a cancelled read is still open"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_async(go())


@pytest.mark.parametrize("live", LIVES)
def test_an_async_response_is_cancelled_while_it_waits(
    quiet_url: str, live: Any, run_async: RunAsync
) -> None:
    async def go() -> None:
        response = await millstream.aio.stream(quiet_url, live=live)
        asyncio.get_running_loop().call_later(0.2, lambda: asyncio.ensure_future(response.cancel()))
        async with asyncio.timeout(SOON_S):
            assert [message async for message in response.iter_json()] == [1]

    run_async(go())


@pytest.mark.parametrize("live", LIVES)
def test_the_loop_ends_while_a_task_reads(quiet_url: str, live: Any, run_async: RunAsync) -> None:
    async def read() -> None:
        async for _ in (await millstream.aio.stream(quiet_url, live=live)).iter_json():
            pass

    async def go() -> None:
        go.task = asyncio.create_task(read())  # type: ignore[attr-defined]
        await asyncio.sleep(0.2)

    run_async(go())


def test_the_loop_ends_while_a_producer_sends(quiet_url: str, run_async: RunAsync) -> None:
    async def go() -> None:
        stream = millstream.aio.DurableStream(quiet_url, content_type=JSON)
        producer = millstream.aio.IdempotentProducer(stream, "p", max_batch_bytes=10)
        for number in range(500):
            await producer.append(number)

    run_async(go())


def test_the_loop_ends_while_appends_wait(quiet_url: str, run_async: RunAsync) -> None:
    async def go() -> None:
        stream = millstream.aio.DurableStream(quiet_url, content_type=JSON)
        go.tasks = [asyncio.create_task(stream.append(number)) for number in range(20)]  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    run_async(go())


def test_appends_survive_the_cancelling_of_others(quiet_url: str, run_async: RunAsync) -> None:
    async def go() -> None:
        stream = millstream.aio.DurableStream(quiet_url, content_type=JSON)
        tasks = [asyncio.create_task(stream.append(number)) for number in range(100, 140)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        stored = await (await stream.stream(live=False)).read_json()
        kept = [
            number
            for number, result in zip(range(100, 140), results, strict=True)
            if not isinstance(result, BaseException)
        ]
        assert set(kept) <= set(stored)
        assert len(kept) >= 26
        assert len(stored) == len(set(stored))
        await stream.append("still works")

    run_async(go())


def test_a_client_of_ones_own_is_closed_with_its_connections(quiet_url: str, run_async: RunAsync) -> None:
    with millstream.HttpClient() as client:
        assert millstream.stream(quiet_url, live=False, client=client).read_json() == [1]
        assert millstream.DurableStream.head(quiet_url, client=client).exists

    async def go() -> None:
        async with (
            millstream.aio.HttpClient() as client,
            millstream.aio.stream(quiet_url, live=False, client=client) as response,
        ):
            assert await response.read_json() == [1]

    run_async(go())


# -- Processes that fork ---------------------------------------------------------------------------


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked child; give its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_opens_its_own_connections(quiet_url: str, run_async: RunAsync) -> None:
    stream = millstream.DurableStream(quiet_url, content_type=JSON)
    stream.append("parent")
    inherited = open_sockets()

    def child() -> None:
        for number in range(20):
            stream.append(number)
        assert open_sockets() - inherited, "the child used its parent's connection"
        with millstream.IdempotentProducer(stream, "child") as producer:
            producer.append("produced")
        assert stream.stream(live=False).read_json()[-1] == "produced"

        async def go() -> None:
            await millstream.aio.DurableStream(quiet_url, content_type=JSON).append("async child")

        run_async(go())

    assert in_child(child) == 0
    stream.append("parent again")
    stored = stream.stream(live=False).read_json()
    assert stored == [1, "parent", *range(20), "produced", "async child", "parent again"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_may_not_use_its_parents_producer(quiet_url: str) -> None:
    stream = millstream.DurableStream(quiet_url, content_type=JSON)
    with millstream.IdempotentProducer(stream, "parent") as producer:
        producer.append("before")

        def child() -> None:
            for use in (lambda: producer.append("child"), producer.flush, producer.restart):
                try:
                    use()
                except millstream.ProducerStoppedError:
                    continue
                raise AssertionError(use)

        assert in_child(child) == 0
        producer.append("after")
    assert stream.stream(live=False).read_json() == [1, "before", "after"]
