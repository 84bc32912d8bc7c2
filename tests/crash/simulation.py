"""The engine on a simulated disk, with a simulated clock, crashing again and again.

A run is drawn from its seed: clients that create, append, retry, close, fork, delete and read, and stage
parts and commit them (`simulated_parts`); a committer
and a background that move when the dice say so, so that what is accepted and what is durable differ for a
while; full disks and failing ones; clients that hang up; and, between two generations, the end of the
process or of the power, at any operation of the disk, also while recovering from the last one.

What is checked, against a plain model: every decision; every byte that is read; and after each crash that
the engine is in exactly the state after some change that it made, not before the last one that anybody was
told of or has seen.

    python -m tests.crash.simulation --seed 7          replays a seed, exactly
    python -m tests.crash.simulation --seeds 1000      looks for a bad one
"""

import argparse
import copy
import json as json_text
import logging
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from millstream.protocol import json_frames
from millstream.protocol.content import Kind
from millstream.protocol.expiry import Lifetime
from millstream.protocol.offsets import START
from millstream.protocol.parts import Commit, CommitRequest
from millstream.protocol.producers import Stamp
from millstream.protocol.reads import Chunk, OffsetGone
from millstream.protocol.requests import AppendRequest, CreateRequest, ReadRequest
from millstream.protocol.retention import KEEP_ALL, Retention, needed
from millstream.protocol.streams import NoSpace, NotFound, SoftDeleted, StoreFailed
from millstream.store.log import content, layout
from millstream.store.log.commit import Outcome
from millstream.store.log.format import (
    AppendMeta,
    CommitMeta,
    CreateMeta,
    DropMeta,
    EndMeta,
    RenewMeta,
    StageMeta,
    TrimMeta,
)
from millstream.store.log.runtime import Runtime
from millstream.store.log.segments import Log
from millstream.store.pending import Pending
from millstream.store.table import Kept

from . import model as plain
from .simulated_disk import CrashError
from .simulated_engine import Change, SimulatedCatalog, SimulatedCommitter, Variant
from .simulated_parts import PartClients, hurried_parts, parts_of

GENERATIONS = 4
STEPS = 150
_START_MS = 1_700_000_000_000


class ViolationError(AssertionError):
    """The engine broke its promise."""


_EXPECTED: dict[type, type] = {
    plain.Create: CreateMeta,
    plain.Append: AppendMeta,
    plain.End: EndMeta,
    plain.Stage: StageMeta,
    plain.Commit: CommitMeta,
    plain.Drop: DropMeta,
}


# -- The simulation ------------------------------------------------------------------------------------


class Simulation(PartClients):
    """One seed."""

    def __init__(self, seed: int, variant: type[Variant] = Variant, *, verbose: bool = False) -> None:
        self.random = random.Random(seed)
        self.verbose = verbose
        self.variant = variant
        self.disk = variant.disk(self.random)
        self.disk.on_step = self._on_disk_step
        self.catalog = SimulatedCatalog(self.disk)
        self.now_ms = _START_MS
        self.names = [f"/s{i}" for i in range(5)] + [f"/f{i}" for i in range(6)]
        self.accepted = plain.Model()
        self.base = plain.Model()
        self.base_lsn = 0
        self.log_of_changes: list[tuple[int, plain.Change]] = []
        self.told_lsn = 0  # the last change that anybody was told of or has seen
        self.changes: list[Change] = []
        self.jobs: deque[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = deque()
        self.in_job = False
        self.beside_job = False
        self.waiting: list[Pending[Any]] = []
        self.retries: list[tuple[str, AppendRequest]] = []
        self.commit_retries: list[tuple[str, CommitRequest]] = []
        self.failed = False
        self.crashes = 0

    def run(self, generations: int = GENERATIONS, steps: int = STEPS) -> None:
        usual = content._SYNC_EACH
        usual_sizes = layout.LEAST_BYTES, layout.MOST_BYTES, layout.TIMED_BYTES
        content._SYNC_EACH = self.random.choice((0, 2, usual))
        layout.LEAST_BYTES, layout.MOST_BYTES, layout.TIMED_BYTES = 128, 512, 256
        logging.getLogger("millstream").disabled = True
        try:
            with hurried_parts(self.random):
                for generation in range(generations):
                    self.say(f"-- generation {generation}")
                    self._boot()
                    self._generation(steps)
                self._boot()
        finally:
            content._SYNC_EACH = usual
            layout.LEAST_BYTES, layout.MOST_BYTES, layout.TIMED_BYTES = usual_sizes
            logging.getLogger("millstream").disabled = False
            self.catalog.really_close()

    def _generation(self, steps: int) -> None:
        if self.random.random() < 0.5:
            self.disk.crash_at = self.disk.steps + self.random.randint(1, 3 * steps)
        try:
            for _ in range(steps):
                self.step()
            if self.random.random() < 0.15:
                self._shut_down()
                return
        except CrashError as crash:
            self.say(f"crash {crash}")
        self._crash()

    def _crash(self) -> None:
        self.crashes += 1
        power = self.random.random() < 0.6
        self.say("power cut" if power else "kill")
        self.disk.power_cut() if power else self.disk.kill()
        self.in_job = False
        self.jobs.clear()
        self.waiting.clear()
        self.changes.clear()
        self.disk.capacity = None

    def _boot(self) -> None:
        for _ in range(6):
            if self.random.random() < 0.25:
                self.disk.crash_at = self.disk.steps + self.random.randint(1, 6)
            try:
                self._open()
            except CrashError as crash:
                self.say(f"crash while recovering, {crash}")
                self._crash()
                continue
            self.disk.crash_at = None
            return
        self._open()

    def _open(self) -> None:
        salt = (lambda: self.random.randbytes(8)) if self.variant.salted else (lambda: b"saltless")
        log = self.variant.log(self.disk, segment_bytes=2048, new_salt=salt, fills=True)
        self.store = self.variant.store(
            self.disk, self.catalog, log, Runtime(self._start_committer, self._in_background)
        )
        self.store.watcher = self
        self.failed = False
        _drive(self.store.open())
        self.say(f"recovered up to {self.store._lsn}, told {self.told_lsn}")

    def _start_committer(self, log: Log, report: Callable[[Outcome], None]) -> SimulatedCommitter:
        self.committer = self.variant.committer(log, report)
        return self.committer

    def _in_background(self, job: Callable[[], None], report: Callable[[BaseException | None], None]) -> None:
        self.jobs.append((job, report))

    def _shut_down(self) -> None:
        self.disk.capacity = None
        self.disk.crash_at = None
        self.disk._faults.clear()
        while self.committer.queue or self.committer.reports or self.jobs:
            if self.committer.queue and not self.committer.parked:
                self.committer.commit(1)
            elif self.committer.reports:
                self.committer.deliver()
            elif self.jobs:
                self._run_job()
            else:
                break
        self.disk.capacity = None  # the weather may have changed while jobs ran
        self.disk._faults.clear()
        _drive(self.store.close())
        self.say("closed")
        self.check(self.disk.open_files == 0, f"{self.disk.open_files} files were left open")
        self._check_part_files()
        if self.store._refusal is None:
            self._check_room()
        self._crash()

    def _check_room(self) -> None:
        """After a checkpoint, streams that are there have no file of which nothing is left."""
        rows = {row.stream_id: row for row in self.catalog.rows()}
        for path in self.disk.snapshot():
            folder, _, name = path.rpartition("/")
            if not folder.startswith("streams/") or int(name[:16], 16) not in rows:
                continue
            row = rows[int(name[:16], 16)]
            stream = row.stream()
            size = layout.chunk_bytes(stream.retention)
            number = int(name.split(".")[1]) if name.count(".") == 2 else 0
            extent = content.Extent.of(stream)
            if name.endswith(".idx"):
                wanted = number >= extent.first_entry // layout.chunk_entries(size)
            else:
                first = stream.base + number * size
                ranges = [(stream.start, stream.start + 1), *needed(stream.start, stream.tail, stream.shared)]
                wanted = any(first < end and start < first + size for start, end in ranges)
            wanted |= first_file_of_a_fork(stream.start, stream.base, number)
            self.check(wanted, f"{path}: is left of {stream.name}, from {stream.start} to {stream.tail}")

    # -- What happens ------------------------------------------------------------------------------

    def step(self) -> None:
        """One thing happens."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (30, self._append),
            (8, self._retry),
            (12, self._stage),
            (8, self._commit_parts),
            (2, self._retry_commit),
            (3, self._drop_part),
            (8, self._create),
            (7, self._fork),
            (4, self._delete),
            (16, self._read),
            (25, self._commit),
            (20, self._report),
            (6, self._tick),
            (3, self._checkpoint),
            (3, self._hang_up),
            (1, self._change_weather),
        ]
        if not self.in_job:
            actions.append((14, self._run_job))
        weights, doers = zip(*actions, strict=True)
        self.random.choices(doers, weights)[0]()

    def _on_disk_step(self) -> None:
        """While a job writes in the background, the rest goes on."""
        if self.in_job and not self.beside_job and self.random.random() < 0.1:
            crash_at, self.disk.crash_at = self.disk.crash_at, None
            self.beside_job = True
            self.step()
            self.beside_job = False
            self.disk.crash_at = crash_at

    def _commit(self) -> None:
        if not self.committer.parked:
            self.committer.commit(self.random.randint(1, 6))

    def _report(self) -> None:
        if self.committer.reports:
            self.say(f"report: {self.committer.reports[0]}")
            self.committer.deliver()

    def _run_job(self) -> None:
        if not self.jobs:
            return
        job, report = self.jobs.popleft()
        error: BaseException | None = None
        self.in_job = True
        try:
            job()
        except Exception as problem:
            error = problem
        finally:
            self.in_job = False
        self.say(f"job done: {error!r}")
        report(error)

    def _tick(self) -> None:
        self.now_ms += self.random.choice((0, 200, 700, 1500, 6000))
        self.changes.clear()
        self.store.expire(self.now_ms)
        for lsn, id, meta, _ in list(self.changes):
            if isinstance(meta, EndMeta):
                self.check(self.accepted.streams[id].expired(self.now_ms), f"{id} ended before its time")
                self._take_end(lsn, id, meta)
            elif isinstance(meta, TrimMeta):
                self._take_trim(lsn, id, meta)
            elif isinstance(meta, DropMeta):
                self._take_part_expiry(lsn, id, meta)
            else:
                assert isinstance(meta, RenewMeta), meta
                self._note(lsn, plain.Renew(id, meta.deadline_ms))
        self.changes.clear()
        if self.store._refusal is None:
            late = [e.name for e in self.accepted.streams.values() if e.expired(self.now_ms)]
            self.check(not late, f"{late} outlived their time")
            late = [e.name for e in self.accepted.streams.values() if e.is_late(self.now_ms)]
            self.check(not late, f"{late} keep what is too old")

    def _take_trim(self, lsn: int, id: int, meta: TrimMeta) -> None:
        entry = self.accepted.streams[id]
        self.say(f"trim {entry.name} to {meta.start}: {lsn}")
        self.check(
            entry.start < meta.start <= entry.tail and entry.may_begin_at(meta.start, self.now_ms),
            f"{entry.name} from {entry.start} to {entry.tail} must not begin at {meta.start}",
        )
        self._note(lsn, plain.Trim(id, meta.start))

    def _checkpoint(self) -> None:
        if self.store._refusal is None and not self.store._checkpoints.under_way:
            self.say("checkpoint")
            self.store.checkpoint()

    def _hang_up(self) -> None:
        if self.waiting:
            self.waiting.pop(self.random.randrange(len(self.waiting))).abandon()

    def _change_weather(self) -> None:
        kind = self.random.random()
        if self.disk.capacity is not None:
            self.disk.capacity = None
        elif kind < 0.6:
            self.disk.capacity = self.disk.used() + self.random.randint(0, 3000)
        elif kind < 0.7:
            self.disk.fail_next("sync")
        elif kind < 0.8:
            self.disk.fail_next("write")

    # -- Clients -----------------------------------------------------------------------------------

    def _some_name(self) -> str:
        """A name, of a stream that is there rather than not."""
        there = sorted(self.accepted.names)
        return self.random.choice(there if there and self.random.random() < 0.9 else self.names)

    def _append(self) -> None:
        name = self._some_name()
        entry = self.accepted.get(name)
        stamp = self._stamp(entry) if self.random.random() < 0.5 else None
        seq = b"%06d" % self.random.randint(0, 10**6) if self.random.random() < 0.1 else None
        closes = self.random.random() < 0.04
        data = b"" if closes and self.random.random() < 0.5 else self._data(entry is not None and entry.json)
        kind = b"application/json" if entry is not None and entry.json else b"application/octet-stream"
        self._send(name, AppendRequest(data, kind, closes, stamp, seq))

    def _retry(self) -> None:
        """Send again what was sent before: most of it was stored, some was lost in a crash."""
        if self.retries:
            self._send(*self.random.choice(self.retries))

    def _send(self, name: str, request: AppendRequest) -> None:
        if request.stamp is not None:
            self.retries = [*self.retries[-20:], (name, request)]
        found = self._call(lambda: self.store.append(name, request, self.now_ms))
        if self._is_refused(found):
            return
        self._take_expiries()
        entry = self.accepted.get(name)
        stamp = (request.stamp.id, request.stamp.epoch, request.stamp.seq) if request.stamp else None
        wanted = plain.decide_append(entry, request.data, closes=request.closes, stamp=stamp, seq=request.seq)
        json = request.content_type == b"application/json"
        if entry is not None and not (entry.closed or entry.soft_deleted):
            wanted = "TypeMismatch" if request.data and entry.json != json else wanted
        if wanted == "Append":
            assert entry is not None
            change = plain.Append(entry.id, request.data, request.closes, stamp, request.seq, self.now_ms)
            self._take_change(change)
        elif entry is not None and wanted in ("Duplicate", "AlreadyClosed") and entry.ttl_ms is not None:
            entry.deadline_ms = self.now_ms + entry.ttl_ms
        self._take_renewals()
        tail = entry.tail if entry is not None else 0
        self._expect(found, wanted, f"append {name} {len(request.data)} {stamp}", tail)

    def _stamp(self, entry: plain.Entry | None) -> Stamp:
        id = self.random.choice((b"p", b"q"))
        last = entry.producers.get(id) if entry is not None else None
        dice = self.random.random()
        if last is None:
            return Stamp(id, 0, 0 if dice < 0.9 else 1)
        if dice < 0.8:
            return Stamp(id, last[1], last[2] + 1)
        if dice < 0.9:
            return Stamp(id, last[1] + 1, 0)
        return Stamp(id, max(0, last[1] - self.random.randint(0, 1)), self.random.randint(0, last[2] + 2))

    def _data(self, json: bool) -> bytes:
        size = self.random.choice((1, 8, 30, 200, 600)) + self.random.randint(0, 7)
        if not json:
            return self.random.randbytes(size)
        count = self.random.randint(1, 4)
        messages = [self.random.randbytes(size // (2 * count)).hex() for _ in range(count)]
        return json_frames.frame(json_text.dumps(messages).encode())

    def _create(self) -> None:
        name = self.random.choice(self.names)
        json = self.random.random() < 0.4
        body = self._data(json) if self.random.random() < 0.3 else b""
        lifetime = self._lifetime()
        retention = self._retention()
        request = CreateRequest(
            body=json_frames.wrap(body) if json and body else body,
            content_type=b"application/json" if json else b"application/octet-stream",
            closed=self.random.random() < 0.1,
            lifetime=lifetime,
            retention=retention,
        )
        found = self._call(lambda: self.store.create(name, request, self.now_ms))
        if self._is_refused(found):
            return
        self._take_expiries()
        entry = self.accepted.get(name)
        if entry is None:
            entry = self._new_entry(name, json, lifetime, retention)
            self._take_change(plain.Create(entry, body, request.closed))
            wanted = "Create"
        else:
            wanted = "NameInUse" if entry.soft_deleted else "Exists ConfigMismatch"
        self._take_renewals()
        self._expect(found, wanted, f"create {name}")

    def _lifetime(self) -> Lifetime:
        dice = self.random.random()
        if dice < 0.15:
            return Lifetime(ttl_s=self.random.randint(2, 40))
        if dice < 0.22:
            return Lifetime(expires_at=b"x", expires_ms=self.now_ms + self.random.randint(1000, 60_000))
        return Lifetime()

    def _retention(self) -> Retention:
        if self.random.random() < 0.5:
            return KEEP_ALL
        sizes, ages = (None, 100, 700, 3000), (None, None, 2, 10, 40)
        return Retention(self.random.choice(sizes), self.random.choice(ages))

    def _new_entry(self, name: str, json: bool, lifetime: Lifetime, retention: Retention) -> plain.Entry:
        ttl_ms = lifetime.ttl_s * 1000 if lifetime.ttl_s is not None else None
        id = self.changes[0][1] if self.changes else -1
        return plain.Entry(
            id,
            name,
            json,
            ttl_ms=ttl_ms,
            deadline_ms=lifetime.deadline_ms(self.now_ms),
            retention=retention,
            created_ms=self.now_ms,
        )

    def _fork(self) -> None:
        name, source_name = self.random.sample(self.names, 2)
        source = self.accepted.get(source_name)
        offset: int | None = None
        sub_offset = 0
        if source is not None and self.random.random() < 0.7:
            ends = [0]
            for piece in source.pieces:
                ends.append(ends[-1] + len(piece))
            offset = self.random.choice(ends)
            if self.random.random() < 0.4:
                sub_offset = self.random.randint(1, 4)
            elif self.random.random() < 0.1:
                offset = source.tail + 1
        request = CreateRequest(
            forked_from=source_name,
            fork_offset=offset,
            fork_sub_offset=sub_offset,
            lifetime=self._lifetime(),
            retention=self._retention(),
        )
        found = self._call(lambda: self.store.create(name, request, self.now_ms))
        if self._is_refused(found):
            return
        self._take_expiries()
        entry, source = self.accepted.get(name), self.accepted.get(source_name)
        if entry is not None:
            wanted = "NameInUse" if entry.soft_deleted else "Exists ConfigMismatch"
        else:
            wanted, base = plain.decide_fork(source, offset, sub_offset)
            if wanted == "Create":
                assert source is not None
                lifetime = request.lifetime or self.store._by_name[source_name].stream.lifetime
                retention = request.retention.or_else(source.retention)
                entry = self._new_entry(name, source.json, lifetime, retention)
                self._take_change(plain.Create(entry, b"", False, source.id, base))
        self._take_renewals()
        self._expect(found, wanted, f"fork {source_name} at {offset}+{sub_offset} to {name}")

    def _delete(self) -> None:
        name = self._some_name()
        found = self._call(lambda: self.store.delete(name, self.now_ms))
        if self._is_refused(found):
            return
        entry = self.accepted.get(name)
        if entry is not None and entry.expired(self.now_ms):
            self._take_expiries()
            entry = self.accepted.get(name)
        if entry is None:
            wanted = "NotFound"
        elif entry.soft_deleted:
            wanted = "SoftDeleted"
        else:
            wanted = "Delete"
            self._take_change(plain.End(entry.id))
        self._expect(found, wanted, f"delete {name}")

    def _read(self) -> None:
        name = self._some_name()
        entry = self.accepted.get(name)
        offset = START
        if entry is not None and entry.pieces and self.random.random() < 0.6:
            offset = sum(len(piece) for piece in entry.pieces[: self.random.randint(0, len(entry.pieces))])
        limit = self.random.choice((1, 50, 400, 10**6))
        kept = self.store._residents.find(name)
        start = kept.start if kept is not None else 0
        found = self._call(lambda: self.store.read(name, ReadRequest(offset=offset), limit, self.now_ms))
        refused = self.store._refusal is not None
        self._take_expiries()
        entry = self.accepted.get(name)
        if entry is not None and entry.ttl_ms is not None and isinstance(found, Chunk):
            entry.deadline_ms = self.now_ms + entry.ttl_ms
        self._take_renewals()
        if isinstance(found, Pending):
            found.then(lambda later: self._see(name, later, late=True, refused=refused))
        else:
            if entry is not None and isinstance(found, Chunk | OffsetGone):
                self._see_start(entry, offset, start, found)
            self._see(name, found, late=False, refused=refused)

    def _see_start(self, entry: plain.Entry, offset: int, start: int, found: Chunk | OffsetGone) -> None:
        """A reader learns where a stream begins: there it must begin for ever, or later."""
        if isinstance(found, OffsetGone):
            self.check(START < offset < start == found.earliest, f"{entry.name}: {offset} is not gone")
            self._tell(entry.number_of_start(found.earliest))
        else:
            wanted = start if offset == START else min(offset, self._durable_tail(entry.name))
            self.check(found.start == wanted, f"{entry.name}: read at {found.start} instead of {wanted}")
            self.check(found.start >= start, f"{entry.name}: what is gone was read")
            if offset == START:
                self._tell(entry.number_of_start(start))

    def _see(self, name: str, found: object, *, late: bool, refused: bool) -> None:
        if isinstance(found, NoSpace | StoreFailed):
            return
        entry = self.accepted.get(name)
        if isinstance(found, Chunk):
            assert entry is not None, f"{name} was read, but there is no such stream"
            data = entry.content()
            self.check(
                found.data == data[found.start : found.end] and found.end <= entry.tail,
                f"{name}: a reader got other bytes than were written",
            )
            closed = found.closed and found.up_to_date
            self.check(not closed or entry.closed, f"{name} was read as closed, but is open")
            self._tell(entry.number_of(found.end, closed=closed))
            if found.up_to_date:
                self.check(found.end == self._durable_tail(name), f"{name}: the tail was not up to date")
        elif not late and not refused and isinstance(found, NotFound | SoftDeleted):
            is_missing = entry is None or entry.soft_deleted or entry.history[0][2] > self.store._durable_lsn
            self.check(is_missing, f"{name} is there, but could not be read")
        if isinstance(found, NotFound | SoftDeleted) and (entry is None or entry.soft_deleted):
            ended = self.accepted.ended.get(name, 0)
            if ended and ended <= self.store._durable_lsn and not refused:
                self._tell(ended)

    def _durable_tail(self, name: str) -> int:
        return self.store._by_name[name].tail

    # -- Keeping the model up ----------------------------------------------------------------------

    def _call(self, request: Callable[[], Any]) -> Any:
        self.changes.clear()
        found = request()
        if not isinstance(found, Pending):
            for lsn, id, meta, _ in list(self.changes):
                if isinstance(meta, DropMeta):
                    self._take_part_expiry(lsn, id, meta)
                ended = self.accepted.streams.get(id)
                if isinstance(meta, EndMeta) and ended is not None and ended.expired(self.now_ms):
                    self._take_end(lsn, id, meta)
        return found

    def _take_expiries(self) -> None:
        """Take in that streams ended, or parts went, because their time was over."""
        for lsn, id, meta, _ in list(self.changes):
            if isinstance(meta, EndMeta):
                entry = self.accepted.streams[id]
                self.check(entry.expired(self.now_ms), f"{entry.name} ended before its time")
                self._take_end(lsn, id, meta)
            elif isinstance(meta, DropMeta):
                self._take_part_expiry(lsn, id, meta)

    def _take_end(self, lsn: int, id: int, meta: EndMeta) -> None:
        gone = self._note(lsn, plain.End(id))
        self.check(gone == len(meta.gone), f"{gone} streams should be gone, but {len(meta.gone)} are")
        self.changes = [change for change in self.changes if change[0] != lsn]

    def _take_renewals(self) -> None:
        for lsn, id, meta, _ in self.changes:
            assert isinstance(meta, RenewMeta), meta
            self._note(lsn, plain.Renew(id, meta.deadline_ms))
        self.changes.clear()

    def _take_change(self, change: plain.Change) -> None:
        """Take in the change that a request was expected to make."""
        expected = _EXPECTED[type(change)]
        self.check(bool(self.changes), f"{change} was expected, but nothing happened")
        lsn, _id, meta, _ = self.changes.pop(0)
        self.check(isinstance(meta, expected), f"{change} was expected, but {meta} happened")
        self._note(lsn, change)

    def _note(self, lsn: int, change: plain.Change) -> int:
        expected = self.log_of_changes[-1][0] + 1 if self.log_of_changes else self.base_lsn + 1
        self.check(lsn == expected, f"change {expected} was expected, but it is numbered {lsn}")
        self.log_of_changes.append((lsn, change))
        return self.accepted.apply(change, lsn)

    def _expect(self, found: Any, wanted: str, what: str, tail: int | None = None) -> None:
        self.check(not self.changes, f"{what}: {self.changes} was not expected")
        lsn = self._last_lsn()
        self.say(f"{what}: {wanted} {lsn} {'...' if isinstance(found, Pending) else ''}")

        def settled(decision: Any) -> None:
            name = type(decision).__name__
            if name in ("NoSpace", "StoreFailed"):
                return
            self.check(name in wanted.split(), f"{what}: {name} instead of {wanted}")
            if tail is not None and hasattr(decision, "tail") and wanted in ("Append", "Duplicate", "Closed"):
                self.check(decision.tail == tail, f"{what}: tail {decision.tail} instead of {tail}")
            if isinstance(decision, Commit):
                self.check(decision.append.tail == tail, f"{what}: tail {decision.append.tail}, not {tail}")
            self._tell(lsn)

        if isinstance(found, Pending):
            self.waiting = [*self.waiting[-30:], found]
            found.then(settled)
        else:
            settled(found)

    def _is_refused(self, found: object) -> bool:
        if not isinstance(found, NoSpace | StoreFailed):
            return False
        self.check(not self.changes, "a refused request changed something")
        self.check(self.store._refusal is not None, "a request was refused without a reason")
        return True

    def _tell(self, lsn: int) -> None:
        self.told_lsn = max(self.told_lsn, lsn)

    def _last_lsn(self) -> int:
        return self.log_of_changes[-1][0] if self.log_of_changes else self.base_lsn

    # -- After a crash, or a full disk -------------------------------------------------------------

    def on_adopt(self) -> None:
        """The engine went back to what is durable: it must be a state that it was in, and not too old."""
        lsn = self.store._lsn
        self.check(lsn >= self.told_lsn, f"recovered up to {lsn}, but {self.told_lsn} was told")
        self.check(lsn <= self._last_lsn(), f"recovered up to {lsn}, but only {self._last_lsn()} was made")
        state = copy.deepcopy(self.base)
        for number, change in self.log_of_changes:
            if number <= lsn:
                state.apply(change, number)
        self._compare(state)
        self.base, self.base_lsn, self.log_of_changes = copy.deepcopy(state), lsn, []
        self.accepted = state
        self.changes.clear()

    def _compare(self, state: plain.Model) -> None:
        for name in self.names:
            kept = self.store._residents.find(name)
            entry = state.get(name)
            if entry is None or kept is None:
                self.check(
                    entry is None and kept is None, f"{name}: {'lost' if kept is None else 'resurrected'}"
                )
                continue
            self.check(kept.stream.id == entry.id, f"{name}: another stream of that name")
            found = _entry_of(kept)
            self.check(found.facts() == entry.facts(), f"{name}: {_difference(entry, found)}")
            self._compare_deadlines(entry, found)
            position = 0
            for piece in entry.pieces:
                if position >= entry.start:
                    bounds = kept.bounds(position)
                    right = (position, position + len(piece))
                    self.check(bounds == right, f"{name}: an append lies at {bounds}")
                position += len(piece)
        listed = [stream.name for stream in self.store.listing("", None, "", 1000, 0).streams]
        wanted = sorted(name for name, id in state.names.items() if not state.streams[id].soft_deleted)
        self.check(listed == wanted, f"listed {listed} instead of {wanted}")

    def _compare_deadlines(self, entry: plain.Entry, found: plain.Entry) -> None:
        """Not before what the log says; later only by renewals that were too small to be logged."""
        if entry.deadline_ms is not None and found.deadline_ms is not None:
            ended_since = entry.id not in self.accepted.streams
            latest_ms = 0 if ended_since else self.accepted.streams[entry.id].deadline_ms or 0
            self.check(
                entry.deadline_ms <= found.deadline_ms and (ended_since or found.deadline_ms <= latest_ms),
                f"{entry.name}: its deadline is {found.deadline_ms}, not {entry.deadline_ms}",
            )
            entry.deadline_ms = found.deadline_ms

    def check(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise ViolationError(otherwise)

    def say(self, what: str) -> None:
        if self.verbose:
            print(f"{self.disk.steps:5} {self.now_ms - _START_MS:7} {what}")


def first_file_of_a_fork(start: int, base: int, number: int) -> bool:
    return number == 0 and start <= base


def _entry_of(kept: Kept) -> plain.Entry:
    stream = kept.stream
    stamps = {id: (stamp.id, stamp.epoch, stamp.seq) for id, stamp in (stream.producers or {}).items()}
    by = stream.closed_by
    return plain.Entry(
        stream.id,
        stream.name,
        stream.kind is Kind.JSON,
        [bytes(kept.start) + kept.fetch(kept.start, kept.tail)],
        kept.tail,
        kept.closed,
        (by.id, by.epoch, by.seq) if by is not None else None,
        stamps,
        stream.last_seq,
        None,
        stream.deadline_ms,
        stream.fork.source_id if stream.fork is not None else None,
        stream.fork_count,
        stream.soft_deleted,
        parts=parts_of(kept),
        start=kept.start,
    )


def _difference(wanted: plain.Entry, found: plain.Entry) -> str:
    pairs = zip(wanted.facts(), found.facts(), strict=True)
    return "; ".join(f"{got!r} instead of {want!r}" for want, got in pairs if want != got)


def _drive(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that has nothing to wait for."""
    try:
        while True:
            work.send(None)
    except StopIteration:
        pass


def first_violation(variant: type[Variant], seeds: range) -> tuple[int, ViolationError] | None:
    """Run seeds until one shows that a variant of the engine does not keep its promise."""
    for seed in seeds:
        try:
            Simulation(seed, variant).run()
        except ViolationError as violation:
            return seed, violation
        except Exception as error:
            return seed, ViolationError(f"{type(error).__name__}: {error}")
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="run one seed, and tell what happens")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        Simulation(arguments.seed, verbose=True).run()
        return
    begun_s, crashes = time.monotonic(), 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except BaseException:
            print(f"seed {seed} fails; see: python -m tests.crash.simulation --seed {seed}")
            raise
        crashes += simulation.crashes
    spent_s = time.monotonic() - begun_s
    print(f"{arguments.seeds} seeds, {crashes} crashes, no violation, {spent_s:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
