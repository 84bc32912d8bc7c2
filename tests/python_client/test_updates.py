"""Compare and append by the client (rule X6): conflicts, lost answers, and the loop that decides again."""

import asyncio
import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import millstream
from millstream import (
    NotSupportedError,
    OffsetConflictError,
    ProducerStamp,
    Retry,
    StreamClosedError,
    StreamNotFoundError,
    TransportError,
)
from millstream.client.core.plans import updating
from python_client.conftest import reference
from python_client.faulty_proxy import Fault, FaultyProxy, Request
from running import Server
from running import millstream as serving

JSON = "application/json"
QUICK = Retry(initial_delay_s=0.002, max_delay_s=0.02, max_total_s=30)


def path_of(url: str) -> str:
    return url.split("/", 3)[3]


def contents(url: str) -> Any:
    with millstream.stream(url, live=False) as response:
        return response.read_json()


def count(messages: list[Any]) -> Any:
    """Decide on the next number of a counter."""
    return {"total": (messages[-1]["total"] if messages else 0) + 1}


# -- Appends, closes and commits ---------------------------------------------------------------------


def test_an_append_is_stored_where_it_is_expected(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=JSON)
    first = log.append("one", expected_offset=log.head().offset)
    with pytest.raises(OffsetConflictError, match="not where it was expected") as refused:
        log.append("late", expected_offset="0000000000000000_0000000000000000")
    assert refused.value.current_offset == first.next_offset == refused.value.offset
    assert (refused.value.status, refused.value.code) == (409, "EXPECTED_OFFSET_CONFLICT")
    log.append("two", expected_offset=refused.value.current_offset)
    assert contents(url) == ["one", "two"]


def test_many_messages_follow_each_other(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type="text/plain")
    start = log.head().offset
    result = log.append_all([b"x" * 600_000] * 3, expected_offset=start)  # in two requests
    assert result.next_offset == log.head().offset
    with pytest.raises(OffsetConflictError):
        log.append_all([b"y"], expected_offset=start)
    assert log.head().offset == result.next_offset


def test_a_stamped_append_that_comes_again_is_a_duplicate(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=JSON)
    start, stamp = log.head().offset, ProducerStamp("p", 0, 0)
    assert not log.append(1, producer=stamp, expected_offset=start).duplicate
    assert log.append(1, producer=stamp, expected_offset=start).duplicate
    assert contents(url) == [1]


def test_a_close_happens_where_it_is_expected(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=JSON)
    start = log.head().offset
    tail = log.append("one").next_offset
    for body in (None, "last"):
        with pytest.raises(OffsetConflictError):
            log.close(body, expected_offset=start)
    assert not log.head().stream_closed
    log.close("last", expected_offset=tail)
    log.close(expected_offset=start)  # closed is closed
    with pytest.raises(StreamClosedError):
        log.append("late", expected_offset=start)
    assert contents(url) == ["one", "last"]


def test_parts_are_committed_where_it_is_expected(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=JSON)
    start = log.head().offset
    log.append("first")
    log.stage_part("a", [1, 2])
    with pytest.raises(OffsetConflictError):
        log.commit_parts(["a"], expected_offset=start)
    tail = log.commit_parts(["a"], expected_offset=log.head().offset).next_offset
    batch = log.multipart()
    batch.write(3)
    with pytest.raises(OffsetConflictError):
        batch.commit(expected_offset=start)
    assert batch.commit(expected_offset=tail).next_offset == log.head().offset
    assert contents(url) == ["first", 1, 2, 3]


def test_a_multipart_commit_whose_answer_was_lost_is_found_again(
    shell: Any, server: Server, url: str
) -> None:
    """Its parts are gone, so it happened; the tail that has moved is its own."""
    log = shell.DurableStream.create(url, content_type=JSON)
    tail = log.head().offset
    lost = []

    def fault(request: Request) -> Fault | None:
        is_first = "parts=commit" in request.target and not lost
        lost.extend([1] if is_first else [])
        return Fault.CUT_AFTER if is_first else None

    with FaultyProxy(server.url, choose=fault) as proxy:
        batch = shell.DurableStream(f"{proxy.url}/{path_of(url)}", retry=QUICK).multipart()
        batch.write("once")
        assert batch.commit(expected_offset=tail).next_offset == log.head().offset
    assert lost
    assert contents(url) == ["once"]


def test_an_answer_that_is_lost_leaves_a_plain_append_in_doubt(shell: Any, server: Server, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=JSON)
    with FaultyProxy(
        server.url, choose=lambda one: Fault.CUT_AFTER if one.method == "POST" else None
    ) as proxy:
        stream = shell.DurableStream(f"{proxy.url}/{path_of(url)}", retry=QUICK)
        with pytest.raises(TransportError):
            stream.append("once", expected_offset=log.head().offset)
    assert contents(url) == ["once"]


def test_a_server_that_would_not_look_is_not_asked(shell: Any) -> None:
    """The reference server ignores what is expected, and would append anywhere."""
    with reference() as server:
        log = shell.DurableStream.create(f"{server.url}/v1/stream/x", content_type=JSON)
        tail = log.append("one").next_offset
        with pytest.raises(NotSupportedError, match="compare-and-append"):
            log.append("two", expected_offset=tail)
        with pytest.raises(NotSupportedError):
            log.close(expected_offset=tail)
        with pytest.raises(NotSupportedError):
            log.update(lambda messages: "two")


# -- Updates -----------------------------------------------------------------------------------------


def test_an_update_decides_on_all_that_is_there(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=JSON)
    seen = []
    assert log.update(lambda messages: seen.append(messages)) is None
    assert log.update(lambda messages: []) is None
    result = log.update(lambda messages: [seen.append(messages), {"n": 1}, [2]][1:])
    assert result.next_offset == log.head().offset
    log.update(lambda messages: seen.append(messages) or "three", offset=result.next_offset)
    assert seen == [[], [], []]
    assert contents(url) == [{"n": 1}, [2], "three"]


def test_an_update_of_bytes(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type="application/octet-stream", body=b"\x00\x01")
    log.update(lambda content: bytes([content[-1] + 1]))
    log.update(lambda content: bytes([content[-1] + 1]))
    assert log.update(lambda content: b"") is None
    with millstream.stream(url, live=False) as response:
        assert response.read_bytes() == b"\x00\x01\x02\x03"


def test_a_conflict_reads_what_is_new_and_decides_again(shell: Any, server: Server, url: str) -> None:
    rival = millstream.DurableStream.create(url, content_type=JSON, body=["first"])
    calls: list[list[Any]] = []

    def decide(messages: list[Any]) -> Any:
        calls.append(list(messages))
        if len(calls) < 4:
            rival.append(len(calls))
        messages.clear()  # it is the caller's own list
        return "decided"

    with FaultyProxy(server.url) as proxy:
        shell.DurableStream(f"{proxy.url}/{path_of(url)}").update(decide)
        offsets = [one.target.partition("offset=")[2] for one in proxy.seen if one.method == "GET"]
    assert calls == [["first"], ["first", 1], ["first", 1, 2], ["first", 1, 2, 3]]
    assert contents(url) == ["first", 1, 2, 3, "decided"]
    assert len(set(offsets)) == 4, "each read begins where the last one ended"


def test_an_update_ends_with_what_its_decision_raises(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=JSON)
    with pytest.raises(ZeroDivisionError):
        log.update(lambda messages: 1 // len(messages))
    with pytest.raises(TypeError):
        log.update(lambda messages: object())
    assert contents(url) == []


def test_an_update_of_no_stream_or_of_a_closed_one(shell: Any, url: str) -> None:
    with pytest.raises(StreamNotFoundError):
        shell.DurableStream(url).update(count)
    log = shell.DurableStream.create(url, content_type=JSON, closed=True)
    with pytest.raises(StreamClosedError):
        log.update(count)
    assert log.update(lambda messages: None) is None


def test_conflicts_end_after_a_while(shell: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "CONFLICTS", Retry(initial_delay_s=0.001, max_attempts=5))
    rival = millstream.DurableStream.create(url, content_type=JSON)
    calls = []

    def decide(messages: list[Any]) -> Any:
        calls.append(len(messages))
        return [rival.append("rival"), "never"][1]

    with pytest.raises(OffsetConflictError) as refused:
        shell.DurableStream(url).update(decide)
    assert refused.value.current_offset == rival.head().offset
    assert calls == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("fault", [Fault.CUT_AFTER, Fault.FAIL_500_AFTER, Fault.TRUNCATE])
def test_an_answer_that_is_lost_is_no_conflict_with_oneself(
    shell: Any, server: Server, url: str, fault: Fault
) -> None:
    """The append was stored, its answer was lost: it counts once, and the decision is not made again."""
    millstream.DurableStream.create(url, content_type=JSON)
    lost: list[Request] = []

    def decide_fault(request: Request) -> Fault | None:
        if request.method == "POST" and not lost:
            lost.append(request)
            return fault
        return None

    with FaultyProxy(server.url, choose=decide_fault) as proxy:
        result = shell.DurableStream(f"{proxy.url}/{path_of(url)}", retry=QUICK).update(count)
    assert lost
    assert result.next_offset == millstream.DurableStream(url).head().offset
    assert contents(url) == [{"total": 1}]


def test_a_rivals_equal_message_is_not_ones_own(shell: Any, server: Server, url: str) -> None:
    """The append never arrived, and a rival stored the same bytes there: that is not its own."""
    rival = millstream.DurableStream.create(url, content_type=JSON)
    cut: list[Request] = []

    def decide_fault(request: Request) -> Fault | None:
        if request.method == "POST" and not cut:
            cut.append(request)
            rival.append({"add": 1})
            return Fault.CUT_BEFORE
        return None

    with FaultyProxy(server.url, choose=decide_fault) as proxy:
        log = shell.DurableStream(f"{proxy.url}/{path_of(url)}", retry=QUICK)
        log.update(lambda messages: {"add": 1})
    assert cut
    assert contents(url) == [{"add": 1}] * 2


def test_a_close_in_between_leaves_doubt(shell: Any, server: Server, url: str) -> None:
    """Stored, answer lost, then closed by somebody: the server says only that it is closed."""
    rival = millstream.DurableStream.create(url, content_type=JSON)
    lost: list[Request] = []

    def decide_fault(request: Request) -> Fault | None:
        if request.method == "POST" and lost:
            rival.close()
        is_first = request.method == "POST" and not lost
        lost.extend([request] if is_first else [])
        return Fault.CUT_AFTER if is_first else None

    doubt = pytest.raises(TransportError, match="this append may be in it")
    with FaultyProxy(server.url, choose=decide_fault) as proxy, doubt:
        shell.DurableStream(f"{proxy.url}/{path_of(url)}", retry=QUICK).update(count)
    assert contents(url) == [{"total": 1}]


def test_updates_on_a_bad_network_count_exactly(shell: Any, server: Server, url: str) -> None:
    millstream.DurableStream.create(url, content_type=JSON)
    with FaultyProxy(server.url, seed=3, rate=0.3) as proxy:
        log = shell.DurableStream(f"{proxy.url}/{path_of(url)}", retry=QUICK)
        for _ in range(60):
            log.update(count)
    assert proxy.fault_count > 20, proxy.counts
    assert contents(url) == [{"total": number} for number in range(1, 61)]


def test_threads_and_handles_share_a_counter(url: str) -> None:
    """Eight threads with a handle for each update: the sum is exact, and few producers are remembered."""
    millstream.DurableStream.create(url, content_type=JSON)
    before = len(updating._idle)

    def raise_it(_: int) -> None:
        millstream.DurableStream(url).update(count)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(raise_it, range(80)))
    assert contents(url)[-1] == {"total": 80}
    assert len(updating._idle) <= max(before, 8), "ids are used again"


def test_tasks_share_a_counter(run_async: Any, url: str) -> None:
    millstream.DurableStream.create(url, content_type=JSON)

    async def count_later(messages: list[Any]) -> Any:
        await asyncio.sleep(0)
        return count(messages)

    async def main() -> None:
        log = millstream.aio.DurableStream(url)
        await asyncio.gather(*(log.update(count_later) for _ in range(40)))

    run_async(main())
    assert contents(url)[-1] == {"total": 40}


def test_an_update_that_is_cancelled_changes_nothing_later(run_async: Any, server: Server, url: str) -> None:
    """Its append is in doubt for ever, but the next one has another stamp, and is its own."""
    millstream.DurableStream.create(url, content_type=JSON)
    arrived = threading.Event()

    def stall(request: Request) -> Fault | None:
        if request.method == "POST" and not arrived.is_set():
            arrived.set()
            return Fault.DELAY
        return None

    async def main() -> None:
        with FaultyProxy(server.url, choose=stall) as proxy:
            log = millstream.aio.DurableStream(f"{proxy.url}/{path_of(url)}")
            first = asyncio.create_task(log.update(count))
            await asyncio.to_thread(arrived.wait)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            del first
            gc.collect()
            await log.update(lambda messages: {"total": (messages[-1]["total"] if messages else 0) + 1})

    run_async(main())
    assert contents(url)[-1]["total"] == len(contents(url))


def test_a_forked_process_has_stamps_of_its_own(url: str) -> None:
    log = millstream.DurableStream.create(url, content_type=JSON)
    log.update(count)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if not updating._idle else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert updating._idle


def test_a_stream_that_remembers_no_more_producers_can_be_updated(shell: Any) -> None:
    """Without a stamp an answer that is lost leaves doubt, and nothing else is different."""
    with serving("--max-producers-per-stream", "2", "--producer-idle-s", "3600") as server:
        url = f"{server.url}/full"
        log = shell.DurableStream.create(url, content_type=JSON)
        for name in ("a", "b"):
            log.append({"total": 0}, producer=ProducerStamp(name, 0, 0))
        log.update(count)
        assert contents(url)[-1] == {"total": 1}
        lost: list[Request] = []

        def once(request: Request) -> Fault | None:
            # The stamped one is refused; the one without a stamp is carried out, and its answer lost.
            is_plain = request.method == "POST" and b"producer-id" not in request.head.lower()
            lost.extend([request] if is_plain else [])
            return Fault.CUT_AFTER if is_plain else None

        with FaultyProxy(server.url, choose=once) as proxy, pytest.raises(TransportError):
            shell.DurableStream(f"{proxy.url}/full", retry=QUICK).update(count)
        assert len(lost) == 1
        assert contents(url)[-1] == {"total": 2}
