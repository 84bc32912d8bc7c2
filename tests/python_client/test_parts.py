"""Multipart appends by the client (rule X3): large, atomic, and safe on a bad network."""

from typing import Any

import httpx
import pytest

import millstream
from millstream import (
    NotSupportedError,
    PartConflictError,
    PartMissingError,
    PayloadTooLargeError,
    ProducerStamp,
    Retry,
    StaleEpochError,
    StreamClosedError,
    StreamNotFoundError,
    TransportError,
)
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


def test_a_multipart_append_is_seen_at_its_end(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=JSON)
    with log.multipart(part_bytes=20) as batch:
        for number in range(30):
            batch.write({"n": number})
        batch.write_all([[1, 2], "text", None])
        assert contents(url) == []
        assert batch.result is None
    assert contents(url) == [{"n": number} for number in range(30)] + [[1, 2], "text", None]
    assert batch.result.next_offset == log.head().offset
    assert not batch.result.duplicate


def test_a_multipart_append_is_larger_than_a_request(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url)
    piece = bytes(range(256)) * 4096
    with log.multipart() as batch:
        for _ in range(20):
            batch.write(piece)
    with millstream.stream(url, live=False) as response:
        assert response.read_bytes() == piece * 20


def test_an_exception_drops_what_was_staged(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type="text/plain")
    with FaultyProxy(url.rsplit("/", 2)[0]) as proxy:
        stream = shell.DurableStream(f"{proxy.url}/{path_of(url)}")
        with pytest.raises(ZeroDivisionError), stream.multipart(part_bytes=1) as batch:
            batch.write("one")
            batch.write("two")
            1 / 0  # noqa: B018  any error will do
        assert [one.method for one in proxy.seen] == ["HEAD", "POST", "DELETE"]
        assert proxy.seen[1].target.split("?")[1] == proxy.seen[2].target.split("?")[1]
    assert log.head().offset.endswith("_0000000000000000")
    with pytest.raises(ValueError, match="committed or aborted"):
        batch.write("more")


def test_a_multipart_append_with_nothing_in_it(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=JSON)
    with log.multipart() as batch:
        pass
    assert batch.result is None
    with log.multipart() as batch:
        assert batch.commit(close=True).stream_closed
    assert log.head().stream_closed


def test_a_commit_with_all_that_an_append_may_carry(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=JSON)
    stamp = ProducerStamp("driver", epoch=3, seq=0)
    for turn in range(2):
        with log.multipart() as batch:
            batch.write(turn)
            result = batch.commit(producer=stamp)
        assert result.duplicate is (turn == 1)
    with pytest.raises(StaleEpochError), log.multipart() as batch:
        batch.write("late")
        batch.commit(producer=ProducerStamp("driver", epoch=2, seq=0))
    with log.multipart() as batch:
        batch.write("end")
        assert batch.commit(seq="a", close=True).stream_closed
    assert contents(url) == [0, "end"]
    with pytest.raises(StreamClosedError), log.multipart() as batch:
        batch.write("too late")


def test_many_stage_and_one_commits(shell: Any, url: str) -> None:
    shell.DurableStream.create(url, content_type=JSON)
    for task in (2, 0, 1):
        worker = shell.DurableStream(url)
        worker.stage_part(f"task-{task}", [{"task": task, "row": row} for row in range(2)])
        worker.stage_part(f"task-{task}", [{"task": task, "row": row} for row in range(2)])
    driver = shell.DurableStream(url)
    stamp = ProducerStamp("query/sink", epoch=0, seq=0)
    ids = [f"task-{task}" for task in range(3)]
    assert [driver.commit_parts(ids, producer=stamp).duplicate for _ in range(2)] == [False, True]
    assert contents(url) == [{"task": task, "row": row} for task in range(3) for row in range(2)]


def test_what_parts_may_meet(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type="text/plain")
    log.stage_part("a", "one")
    with pytest.raises(PartConflictError, match=path_of(url)):
        log.stage_part("a", "other")
    with pytest.raises(PartMissingError) as missing:
        log.commit_parts(["a", "b"])
    assert missing.value.code == "PART_MISSING"
    log.drop_part("a")
    log.drop_part("a")
    with pytest.raises(PartMissingError):
        log.commit_parts(["a"])
    with pytest.raises(StreamNotFoundError):
        shell.DurableStream(url + "/nowhere").stage_part("a", "x")
    log.close()
    with pytest.raises(StreamClosedError):
        log.stage_part("a", "x")


def test_too_much_is_refused(shell: Any) -> None:
    with serving("--max-staged-bytes", "10") as server:
        log = shell.DurableStream.create(f"{server.url}/a", content_type="text/plain")
        with pytest.raises(PayloadTooLargeError, match="At most 10 bytes") as refused:
            log.stage_part("a", "x" * 11)
        assert refused.value.code == "STAGED_TOO_MUCH"


@pytest.mark.parametrize("stamped", [True, False])
def test_a_bad_network_neither_loses_nor_doubles(shell: Any, server: Server, url: str, stamped: bool) -> None:
    shell.DurableStream.create(url, content_type=JSON)
    with FaultyProxy(server.url, seed=5, rate=0.4) as proxy:
        log = shell.DurableStream(f"{proxy.url}/{path_of(url)}", retry=QUICK)
        for epoch in range(40):
            stamp = ProducerStamp("p", epoch=epoch, seq=0) if stamped else None
            with log.multipart(part_bytes=30) as batch:
                batch.write_all(range(epoch * 20, epoch * 20 + 20))
                batch.commit(producer=stamp)
    assert proxy.fault_count >= 50, proxy.counts
    assert contents(url) == list(range(800))


def test_a_commit_whose_answer_is_lost(shell: Any, server: Server, url: str) -> None:
    """Without a stamp, only the one who staged the parts knows that they are gone because of this commit."""
    lost: list[Request] = []

    def lose_the_first(request: Request) -> Fault | None:
        if "parts=commit" in request.target and not lost:
            lost.append(request)
            return Fault.CUT_AFTER
        return None

    shell.DurableStream.create(url, content_type=JSON)
    with FaultyProxy(server.url, choose=lose_the_first) as proxy:
        log = shell.DurableStream(f"{proxy.url}/{path_of(url)}", retry=QUICK)
        with log.multipart() as batch:
            batch.write(1)
        assert batch.result.next_offset == log.head().offset
        lost.clear()
        log.stage_part("mine", 2)
        with pytest.raises(TransportError):
            log.commit_parts(["mine"])
    assert contents(url) == [1, 2]


@pytest.mark.node
def test_a_server_without_parts_is_not_written_to(shell: Any) -> None:
    with reference() as server:
        url = f"{server.url}/v1/stream/plain"
        log = shell.DurableStream.create(url, content_type="text/plain")
        assert log.head().extensions == ()
        for attempt in (
            lambda: log.stage_part("a", "x"),
            lambda: log.commit_parts(["a"]),
            lambda: log.drop_part("a"),
        ):
            with pytest.raises(NotSupportedError, match="no multipart appends"):
                attempt()
        with pytest.raises(NotSupportedError), log.multipart() as batch:
            batch.write("x")
        assert httpx.get(url).content == b""
