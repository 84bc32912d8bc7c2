"""Clients of the simulation that stage parts, commit them, drop them, and forget about them (rule X3)."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from millstream.protocol import staging
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.producers import Stamp
from millstream.store import parts as staging_table
from millstream.store.log import staged
from millstream.store.log.format import DropMeta
from millstream.store.table import Kept

from . import model as plain
from .simulated_disk import SimulatedDisk
from .simulated_engine import Change, WatchedStore

_LIFETIME_MS = 40_000
_IDS = ("a", "b", "c", "d", "e")


@contextmanager
def hurried_parts(dice: random.Random) -> Iterator[None]:
    """Let parts expire within a run, and be synced one by one or together."""
    usual = staging.LIFETIME_MS, staging_table._EXPIRY_STEP_MS, staged._SYNC_EACH, staged._COPY_BYTES
    staging.LIFETIME_MS = _LIFETIME_MS  # type: ignore[misc]
    staging_table._EXPIRY_STEP_MS = 2_000
    staged._SYNC_EACH = dice.choice((0, 2, 8))
    staged._COPY_BYTES = dice.choice((64, 1000, 2**20))
    try:
        yield
    finally:
        staging.LIFETIME_MS, staging_table._EXPIRY_STEP_MS, staged._SYNC_EACH, staged._COPY_BYTES = usual  # type: ignore[misc]


def parts_of(kept: Kept) -> dict[str, tuple[bytes, int]]:
    """The parts of a stream, as the model has them."""
    listed = kept.stream.staged.parts if kept.stream.staged is not None else {}
    return {id: (kept.staged[part.number][:], part.staged_ms) for id, part in listed.items()}


class PartClients:
    """What the simulation does with parts; the rest of it is `Simulation`."""

    random: random.Random
    store: WatchedStore
    disk: SimulatedDisk
    accepted: plain.Model
    now_ms: int
    changes: list[Change]
    commit_retries: list[tuple[str, CommitRequest]]
    check: Callable[[bool, str], None]
    _call: Callable[[Callable[[], Any]], Any]
    _data: Callable[[bool], bytes]
    _expect: Callable[..., None]
    _is_refused: Callable[[object], bool]
    _note: Callable[[int, plain.Change], int]
    _some_name: Callable[[], str]
    _stamp: Callable[[plain.Entry | None], Stamp]
    _take_change: Callable[[plain.Change], None]
    _take_expiries: Callable[[], None]
    _take_renewals: Callable[[], None]

    def _stage(self) -> None:
        name = self._some_name()
        entry = self.accepted.get(name)
        json = entry is not None and entry.json
        id, data = self.random.choice(_IDS), self._data(json)
        if entry is not None and id in entry.parts and self.random.random() < 0.5:
            data = entry.parts[id][0]
        kind = b"application/json" if json else b"application/octet-stream"
        request = StageRequest(id, data, kind)
        found = self._call(lambda: self.store.stage(name, request, 2**20, self.now_ms))
        if self._is_refused(found):
            return
        self._take_expiries()
        entry = self.accepted.get(name)
        wanted = plain.decide_stage(entry, id, data, json=json)
        if wanted == "Stage":
            assert entry is not None
            self._take_change(plain.Stage(entry.id, id, data, self.now_ms))
        elif entry is not None and wanted == "AlreadyStaged" and entry.ttl_ms is not None:
            entry.deadline_ms = self.now_ms + entry.ttl_ms
        self._take_renewals()
        self._expect(found, wanted, f"stage {name} {id} {len(data)}")

    def _commit_parts(self) -> None:
        name = self._some_name()
        entry = self.accepted.get(name)
        there = sorted(entry.parts) if entry is not None else []
        self.random.shuffle(there)
        ids = there[: self.random.randint(1, 5)] or ["a"]
        if self.random.random() < 0.05:
            ids.append("missing")
        stamp = self._stamp(entry) if self.random.random() < 0.5 else None
        seq = b"%06d" % self.random.randint(0, 10**6) if self.random.random() < 0.1 else None
        self._send_commit(name, CommitRequest(ids, self.random.random() < 0.05, stamp, seq))

    def _retry_commit(self) -> None:
        """Commit again what was committed before, though its parts may be gone."""
        if self.commit_retries:
            self._send_commit(*self.random.choice(self.commit_retries))

    def _send_commit(self, name: str, request: CommitRequest) -> None:
        if request.stamp is not None:
            self.commit_retries = [*self.commit_retries[-20:], (name, request)]
        found = self._call(lambda: self.store.commit(name, request, self.now_ms))
        if self._is_refused(found):
            return
        self._take_expiries()
        entry = self.accepted.get(name)
        stamp = (request.stamp.id, request.stamp.epoch, request.stamp.seq) if request.stamp else None
        wanted = plain.decide_commit(entry, request.ids, closes=request.closes, stamp=stamp, seq=request.seq)
        if wanted == "Commit":
            assert entry is not None
            self._take_change(
                plain.Commit(entry.id, request.ids, request.closes, stamp, request.seq, self.now_ms)
            )
        elif entry is not None and wanted == "Duplicate" and entry.ttl_ms is not None:
            entry.deadline_ms = self.now_ms + entry.ttl_ms
        self._take_renewals()
        tail = entry.tail if entry is not None else 0
        self._expect(found, wanted, f"commit {name} {request.ids} {stamp}", tail)

    def _drop_part(self) -> None:
        name, id = self._some_name(), self.random.choice(_IDS)
        found = self._call(lambda: self.store.drop_part(name, id, self.now_ms))
        if self._is_refused(found):
            return
        entry = self.accepted.get(name)
        if entry is not None and entry.expired(self.now_ms):
            self._take_expiries()
            entry = self.accepted.get(name)
        wanted = "NotFound" if entry is None else "SoftDeleted" if entry.soft_deleted else "Drop"
        if entry is not None and id in entry.parts:
            self._take_change(plain.Drop(entry.id, [id]))
        self._expect(found, wanted, f"drop {name} {id}")

    def _take_part_expiry(self, lsn: int, id: int, meta: DropMeta) -> None:
        """Take in that parts went because nobody has committed them in time."""
        entry = self.accepted.streams[id]
        for part in meta.ids:
            since_ms = entry.parts[part][1]
            self.check(
                self.now_ms >= since_ms + _LIFETIME_MS, f"{entry.name}: part {part} went before its time"
            )
        self._note(lsn, plain.Drop(id, meta.ids))
        self.changes[:] = [change for change in self.changes if change[0] != lsn]

    def _check_part_files(self) -> None:
        """After a clean end there is a file for each part, and no other."""
        if self.store._refusal is not None:
            return
        residents = self.store._residents
        wanted = {(id, number) for id, kept in residents.by_id.items() for number in kept.staged}
        self.check(set(staged.find_parts(self.disk)) == wanted, "there are files of parts that are none")
