"""Corners of the engine that a crash, a clock or a size may find."""

import asyncio
import contextlib
import copy
import os
import random
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from crash.folders import NOW_MS, OCTETS, opened
from crash.simulated_disk import CrashError, SimulatedDisk
from crash.simulated_engine import SimulatedCommitter
from crash.simulation import Simulation
from millstream.protocol.expiry import Lifetime
from millstream.protocol.offsets import NOW
from millstream.protocol.requests import AppendRequest, CreateRequest, ReadRequest
from millstream.protocol.streams import NoSpace, NotFound
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.rows import Changes, Row
from millstream.store.log.disk import RealDisk
from millstream.store.log.engine import LogEngine
from millstream.store.log.files.index import write_pages
from millstream.store.log.files.layout import ONE_FILE, Layout
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.places import Filed
from millstream.store.log.files.sums import ContentSums
from millstream.store.log.recovery import recover
from millstream.store.log.reserve import Reserve
from millstream.store.log.runtime import Runtime
from millstream.store.log.wal.commit import Outcome
from millstream.store.log.wal.segments import Log
from millstream.store.pending import Pending
from millstream.store.table import Table

LAYOUT = Layout(ONE_FILE)


@pytest.mark.parametrize("seed", range(20))
def test_crashing_five_times_while_recovering_changes_nothing(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.machine.boot()
    simulation.disk.crash_at = simulation.disk.steps + 150
    with contextlib.suppress(CrashError):
        for _ in range(400):
            simulation.step()
    simulation.disk.power_cut()
    expected = _last_lsn(simulation)
    simulation.machine.crash()
    for step in (1, 2, 3, 4, 5):
        simulation.disk.crash_at = simulation.disk.steps + step
        with pytest.raises(CrashError):
            simulation.machine.open()
        simulation.disk.power_cut()
        assert _last_lsn(simulation) == expected
    simulation.machine.open()  # which compares everything
    assert simulation.world.engine.journal.lsn == expected
    simulation.machine.catalog.really_close()


def _last_lsn(simulation: Simulation) -> int:
    disk = copy.deepcopy(_without_hook(simulation.disk))
    log = Log(disk, 2048)
    recover(simulation.machine.catalog, log, StreamFiles(disk))
    return log.next_lsn - 1


def _without_hook(disk: SimulatedDisk) -> SimulatedDisk:
    bare = copy.copy(disk)
    bare.on_step = lambda: None
    return bare


def test_a_stream_beyond_four_gibibytes_keeps_its_tail(tmp_path: Path) -> None:
    tail, last = 5 * 2**32 + 10, b"the end..."
    with opened(tmp_path) as data:
        data.create("/big", body=b"x")
        data.checkpoint()
        stream = copy.copy(data.engine.streams.find("/big").stream)  # type: ignore[union-attr]
        data.abandon()
    stream.tail = tail
    content = tmp_path / LAYOUT.content_name(stream.id)
    content.parent.mkdir(parents=True)
    with content.open("wb") as file:
        file.seek(tail - len(last))  # sparse
        file.write(last)
    sums = ContentSums(stream.id, tail - len(last), None)
    sums.add(last)
    place = Filed(LAYOUT, content_sum=sums.partial)
    ((part, place),) = write_pages(stream.id, 0, 2**50, place, array("Q", [tail]), array("Q", [NOW_MS]))
    (tmp_path / LAYOUT.index_name(stream.id)).write_bytes(part.ends)
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.checkpoint(Changes([Row.of(stream, tail, 1, place)], [], [], {}))
    catalog.close()
    with opened(tmp_path) as data:
        assert data.append("/big", b"and more").tail == tail + 8
        data.checkpoint()
        data.append("/big", b"!")
        data.abandon()
    with opened(tmp_path) as data:
        found = data.store.read("/big", ReadRequest(offset=tail - 10), 100, NOW_MS)
        assert (found.data, found.end) == (b"the end...and more!", tail + 9)  # type: ignore[union-attr]


def test_a_chain_of_a_thousand_forks_opens_again(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/0", body=b"0")
        for number in range(1, 1000):
            data.create(f"/{number}", forked_from=f"/{number - 1}")
    with opened(tmp_path) as data:
        found = data.store.read("/999", ReadRequest(), 100, NOW_MS)
        assert found.data == b"0"  # type: ignore[union-attr]
        data.append("/999", b"1")
        data.abandon()
    with opened(tmp_path) as data:
        assert data.store.read("/999", ReadRequest(), 100, NOW_MS).data == b"01"  # type: ignore[union-attr]
        for number in range(999):
            data.delete(f"/{number}")
        assert data.state().keys() == {"/999"}
        data.delete("/999")
        assert not data.engine.streams.by_id
    with opened(tmp_path) as data:
        assert data.state() == {}


def test_deadlines_survive_restarts_and_end_streams_that_nobody_touches(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        for number in range(30):
            data.create(f"/{number}", lifetime=Lifetime(ttl_s=10))
        data.create("/kept")
    with opened(tmp_path) as data:
        _tick(data, NOW_MS + 9_999)
        assert len(data.state()) == 31
        _tick(data, NOW_MS + 10_000)
        assert data.state().keys() == {"/kept"}


def test_renewals_survive_eviction(tmp_path: Path) -> None:
    with opened(tmp_path, memory_bytes=1) as data:
        data.create("/a", lifetime=Lifetime(ttl_s=60))
        data.checkpoint()
        data.store.read("/a", ReadRequest(), 100, NOW_MS + 500)  # too little to be logged at once
        for number in range(1, 9):
            _tick(data, NOW_MS + number * 6_000)
            data.until(lambda: not data.engine.runtime.jobs)
        assert "/a" not in data.engine.streams.by_name
        assert data.engine.streams.find("/a").stream.deadline_ms == NOW_MS + 60_500  # type: ignore[union-attr]


def test_streams_leave_memory_and_come_back(tmp_path: Path) -> None:
    with opened(tmp_path, memory_bytes=1) as data:
        for number in range(50):
            data.create(f"/{number}", body=b"%d" % number)
        data.checkpoint()
        for number in range(1, 5):
            _tick(data, NOW_MS + number * 6_000)
            data.until(lambda: not data.engine.runtime.jobs)
        assert not data.engine.streams.by_id
        assert data.append("/7", b"+").tail == 2
        assert data.state()["/7"][0] == b"7+"


@pytest.mark.parametrize("days", [-10, 10])
def test_a_clock_that_jumps_stops_nothing(tmp_path: Path, days: int) -> None:
    with opened(tmp_path) as data:
        _tick(data, NOW_MS)
        data.until(lambda: not data.engine.runtime.jobs)  # no checkpoint begins while it looks for damage
        data.create("/a", body=b"before")
        now_ms = NOW_MS + days * 86_400_000
        _tick(data, now_ms)
        data.until(lambda: not data.engine.streams.dirty)  # a checkpoint is taken all the same
        data.until(lambda: not data.engine.runtime.jobs)
        request = AppendRequest(b"-after", OCTETS, False, None, None)
        assert data.wait(data.store.append("/a", request, now_ms)).tail == 12
        data.engine.journal.refusal, data.engine._full_since_ms = NoSpace(), NOW_MS
        _tick(data, now_ms)
        data.until(lambda: not data.engine.runtime.jobs)
        assert data.engine.journal.refusal is None


def _tick(data: object, now_ms: int) -> None:
    async def tick() -> None:
        data.store.expire(now_ms)  # type: ignore[attr-defined]

    data.runner.run(tick())  # type: ignore[attr-defined]
    data.until(lambda: data.engine.journal.durable_lsn == data.engine.journal.lsn)  # type: ignore[attr-defined]


def test_readers_do_not_learn_of_a_deletion_before_it_is_durable(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/a")
        deletion = data.store.delete("/a", NOW_MS)
        seen = data.store.read("/a", ReadRequest(), 100, NOW_MS)
        head = data.store.head("/a", NOW_MS)
        assert not isinstance(seen, NotFound)
        assert not isinstance(head, NotFound)
        data.wait(deletion)
        assert (data.wait(seen), data.wait(head)) == (NotFound("/a"), NotFound("/a"))


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  names, not paths

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    before = count()
    for _ in range(3):
        with opened(tmp_path, segment_bytes=1024) as data:
            for number in range(40):
                data.create(f"/{random.random()}", body=b"x" * 100)
                if number % 10 == 9:
                    data.checkpoint()
            data.state()
    assert count() == before


def test_every_new_folder_is_synced_in_the_one_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    monkeypatch.setattr(os, "fsync", fsync)
    folder = tmp_path / "new" / "data"
    with opened(folder, durable=True) as data:
        assert {str(tmp_path), str(tmp_path / "new"), str(folder), str(folder / "wal")} <= set(synced)
        data.create("/a", body=b"x" * 20_000)
        data.create("/b", body=b"x")
        data.checkpoint()
        made = {str(folder / name) for name in ("streams", "streams/01", "packs")}
        assert made <= set(synced)
    # A process that finds the folders there does not know whether they were ever synced.
    synced.clear()
    with opened(folder, durable=True):
        assert {str(folder), str(folder / "wal")} <= set(synced)


def test_many_streams_are_synced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[object] = []
    monkeypatch.setattr(RealDisk, "sync_all", lambda self: bool(syncs.append(self)) or True)
    with opened(tmp_path, durable=True) as data:
        for number in range(20):
            data.create(f"/{number}", body=b"x" * 20_000)
        data.checkpoint()
        assert len(syncs) == 1


# -- What memory holds -----------------------------------------------------------------------------------


def test_writers_that_are_faster_than_checkpoints_wait_for_them(tmp_path: Path) -> None:
    committers: list[SimulatedCommitter] = []
    jobs: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []

    def start(log: Log, report: Callable[[Outcome], None]) -> SimulatedCommitter:
        committers.append(SimulatedCommitter(log, report))
        return committers[0]

    def append(size: int) -> list[object]:
        answers: list[object] = []
        pending = store.append("/s", AppendRequest(b"x" * size, OCTETS, False, None, None), NOW_MS)
        assert isinstance(pending, Pending)
        pending.then(answers.append)
        committers[0].commit(1)
        committers[0].deliver()
        return answers

    disk, catalog = RealDisk(tmp_path), Catalog(tmp_path / "catalog.db")
    runtime = Runtime(start, lambda job, report: jobs.append((job, report)))
    store = Table(
        LogEngine(disk, catalog, Log(disk, 2**20), runtime, Reserve(disk, (0, 0)), checkpoint_bytes=1000)
    )
    asyncio.run(store.open())
    jobs.clear()  # the names in the catalog are learned
    store.create("/s", CreateRequest(content_type=OCTETS), NOW_MS)
    committers[0].commit(1)
    committers[0].deliver()
    assert append(500)
    assert not jobs
    assert append(500)
    assert len(jobs) == 1, "there is enough for a checkpoint"
    assert append(500), "there is room for as much again"
    late = append(500)
    assert not late
    assert store.read("/s", ReadRequest(offset=NOW), 1, NOW_MS).end == 1500  # type: ignore[union-attr]
    job, report = jobs.pop()
    job()
    report(None)
    assert late
    assert len(jobs) == 1, "and enough for the next one"
    disk.close()
    catalog.close()
