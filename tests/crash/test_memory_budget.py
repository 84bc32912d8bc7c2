"""The memory budget: streams stay until it is reached; then the least recently used leave, none is lost."""

import re
import time
from pathlib import Path

from crash.folders import NOW_MS, OCTETS, Opened, opened
from crash.processes import Client, port_of, serving
from millstream.protocol.producers import Stamp
from millstream.protocol.requests import CreateRequest, ReadRequest
from millstream.protocol.streams import Append, Duplicate
from millstream.store.log.cache.memory_use import fixed_bytes, varying_bytes

ONE = 1_170  # more than a stream of these tests takes


def tick(data: Opened, now_ms: int = NOW_MS) -> None:
    """Let the engine do what is due, and wait for it."""

    async def expire() -> None:
        data.store.expire(now_ms)

    data.runner.run(expire())
    data.until(lambda: not data.engine.runtime.jobs)


def in_memory(data: Opened) -> set[str]:
    return set(data.engine.streams.by_name)


def check_sum(data: Opened) -> None:
    cache = data.engine.streams
    for entry in cache.by_id.values():
        cache.memory.recount(entry)
    entries = cache.by_id.values()
    assert cache.memory.bytes == sum(fixed_bytes(entry) + varying_bytes(entry) for entry in entries)


def test_within_the_budget_nothing_leaves(tmp_path: Path) -> None:
    with opened(tmp_path, memory_bytes=100 * ONE) as data:
        for number in range(80):
            data.create(f"/{number}")
        data.checkpoint()
        for hour in range(5):
            tick(data, NOW_MS + hour * 3_600_000)
        assert len(in_memory(data)) == 80
        assert data.store.measures is not None
        assert data.store.measures.cached_streams == 80
        assert data.store.measures.stream_evictions == 0
        assert 80 * 900 < data.store.measures.cached_bytes < 80 * ONE


def test_beyond_it_the_least_recently_used_leave(tmp_path: Path) -> None:
    with opened(tmp_path, memory_bytes=50 * ONE) as data:
        for number in range(50):
            data.create(f"/{number}", body=b"%d" % number)
        data.checkpoint()
        tick(data)
        assert len(in_memory(data)) == 50
        used = {f"/{number}" for number in range(0, 50, 5)}
        for name in used:
            data.store.read(name, ReadRequest(), 100, NOW_MS)
        for number in range(50, 70):
            data.create(f"/{number}")
        data.checkpoint()
        tick(data)
        assert 40 <= len(in_memory(data)) < 55
        assert used <= in_memory(data)
        check_sum(data)
        assert data.state()["/1"][0] == b"1"  # type: ignore[index]
        assert data.append("/1", b"+").tail == 2
        check_sum(data)


def test_what_is_not_saved_stays_and_is_saved_soon(tmp_path: Path) -> None:
    with opened(tmp_path, memory_bytes=20 * ONE) as data:
        for number in range(100):
            data.create(f"/{number}")
        tick(data)  # a part of the budget is a reason for a checkpoint
        tick(data)
        assert len(in_memory(data)) <= 20
        assert len(data.state()) == 100


def test_a_source_leaves_with_the_last_of_its_forks(tmp_path: Path) -> None:
    with opened(tmp_path, memory_bytes=1) as data:
        data.create("/source", body=b"shared")
        data.create("/fork", forked_from="/source")
        data.create("/fork of it", forked_from="/fork")
        data.checkpoint()
        data.until(lambda: not data.engine.runtime.jobs)
        tick(data, NOW_MS + 10_000)
        assert in_memory(data) == set()
        assert data.append("/fork of it", b"!").tail == 7
        assert in_memory(data) == {"/source", "/fork", "/fork of it"}
        check_sum(data)
        data.delete("/source")
        data.delete("/fork of it")
        data.checkpoint()
        tick(data, NOW_MS + 20_000)
        data.delete("/fork")
        assert data.state() == {}
        check_sum(data)
        assert data.engine.streams.memory.bytes == 0


def test_producers_leave_after_a_minute_and_are_not_forgotten(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/a")
        assert isinstance(data.append("/a", b"x", Stamp(b"p", 0, 0)), Append)
        entry = data.engine.streams.find("/a")
        assert entry is not None
        tick(data, NOW_MS + 1_000)
        with_them = data.engine.streams.memory.bytes
        assert entry.stream.producers
        tick(data, NOW_MS + 61_000)
        tick(data, NOW_MS + 62_000)
        assert entry.stream.producers is None
        assert data.engine.streams.memory.bytes < with_them - 300
        assert isinstance(data.append("/a", b"x", Stamp(b"p", 0, 0)), Duplicate)
        assert isinstance(data.append("/a", b"y", Stamp(b"p", 0, 1)), Append)
    with opened(tmp_path) as data:
        assert isinstance(data.append("/a", b"y", Stamp(b"p", 0, 1)), Duplicate)


def test_deleted_streams_do_not_fill_the_order(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        for number in range(12_000):
            data.store.create(f"/{number}", CreateRequest(content_type=OCTETS), NOW_MS)
            data.store.delete(f"/{number}", NOW_MS)
        data.until(lambda: data.engine.journal.durable_lsn == data.engine.journal.lsn)
        data.create("/kept")
        tick(data)
        assert list(data.engine.streams.memory.order) == [data.engine.streams.by_name["/kept"].stream.id]


def test_a_server_with_little_memory(tmp_path: Path) -> None:
    with serving(tmp_path / "data", options=["--memory-bytes", str(2**20)]) as server:
        client = Client(port_of(server))
        for number in range(2_500):
            answer = client.request("PUT", f"/{number}", b"%d" % number, {"Content-Type": "text/plain"})
            assert answer is not None
            assert answer[0] == 201
        within_budget(client)  # those that a checkpoint has not saved yet cannot leave
        for number in (*range(0, 2_500, 3), *range(0, 2_500, 7)):
            answer = client.request("GET", f"/{number}?offset=-1")
            assert answer is not None
            assert (answer[0], answer[2]) == (200, b"%d" % number)
        found = within_budget(client, least_loads=100)
        client.close()
        assert found["cached_streams"] < 1_300
        assert found["stream_evictions_total"] > 1_000


def within_budget(client: Client, least_loads: int = 0) -> dict[str, float]:
    """Wait until some streams have left and memory is within the budget; gives what is measured then."""
    for _ in range(1_000):
        answer = client.request("GET", "/__ds/metrics")
        assert answer is not None
        lines = re.findall(rb"^millstream_((?:cached|stream)_\w+) ([\d.e+]+)$", answer[2], re.MULTILINE)
        found = {name.decode(): float(value) for name, value in lines}
        is_within = 0 < found["cached_stream_bytes"] <= 2**20 and found["stream_evictions_total"]
        if is_within and found["stream_loads_total"] >= least_loads:
            return found
        time.sleep(0.05)
    raise AssertionError(f"the server does not keep to its budget: {found}")
