"""Clients of the simulation that stage parts, commit them, drop them, and forget about them (rule X3)."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

from millstream.protocol import staging
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.store import schedule
from millstream.store.log.files import staged

from . import model as plain
from .expectations import Expectations
from .simulated_requests import Requests
from .simulated_world import World

_LIFETIME_MS = 40_000
_IDS = ("a", "b", "c", "d", "e")


@contextmanager
def hurried_parts(dice: random.Random) -> Iterator[None]:
    """Let parts expire within a run, and be synced one by one or together."""
    usual = staging.PART_LIFETIME_MS, schedule._PARTS_INTERVAL_MS, staged._SYNC_EACH, staged._COPY_BYTES
    staging.PART_LIFETIME_MS = _LIFETIME_MS  # type: ignore[misc]
    schedule._PARTS_INTERVAL_MS = 2_000
    staged._SYNC_EACH = dice.choice((0, 2, 8))
    staged._COPY_BYTES = dice.choice((64, 1000, 2**20))
    try:
        yield
    finally:
        staging.PART_LIFETIME_MS, schedule._PARTS_INTERVAL_MS, staged._SYNC_EACH, staged._COPY_BYTES = usual  # type: ignore[misc]


class PartClients:
    """Each does something with parts, and knows what must come of it."""

    def __init__(self, world: World, expected: Expectations, requests: Requests) -> None:
        self.world = world
        self.random = world.random
        self.expected = expected
        self.requests = requests
        self.retries: list[tuple[str, CommitRequest]] = []

    def stage(self) -> None:
        name = self.requests.some_name()
        entry = self.expected.accepted.get(name)
        json = entry is not None and entry.json
        id, data = self.random.choice(_IDS), self.requests.data(json)
        if entry is not None and id in entry.parts and self.random.random() < 0.5:
            data = entry.parts[id][0]
        kind = b"application/json" if json else b"application/octet-stream"
        request = StageRequest(id, data, kind)
        found = self.expected.ask(lambda: self.world.store.stage(name, request, 2**20, self.world.now_ms))
        if self.expected.is_refused(found):
            return
        self.expected.take_expiries()
        entry = self.expected.accepted.get(name)
        wanted = plain.decide_stage(entry, id, data, json=json)
        if wanted == "Stage":
            assert entry is not None
            self.expected.take_change(plain.Stage(entry.id, id, data, self.world.now_ms))
        elif entry is not None and wanted == "AlreadyStaged" and entry.ttl_ms is not None:
            entry.renew(self.world.now_ms)
        self.expected.take_renewals()
        self.expected.expect(found, wanted, f"stage {name} {id} {len(data)}")

    def commit(self) -> None:
        name = self.requests.some_name()
        entry = self.expected.accepted.get(name)
        there = sorted(entry.parts) if entry is not None else []
        self.random.shuffle(there)
        ids = there[: self.random.randint(1, 5)] or ["a"]
        if self.random.random() < 0.05:
            ids.append("missing")
        stamp = self.requests.stamp(entry) if self.random.random() < 0.5 else None
        seq = b"%06d" % self.random.randint(0, 10**6) if self.random.random() < 0.1 else None
        closes = self.random.random() < 0.05
        self._send(name, CommitRequest(ids, closes, stamp, seq, self.requests.condition(entry)))

    def retry(self) -> None:
        """Commit again what was committed before, though its parts may be gone."""
        if self.retries:
            self._send(*self.random.choice(self.retries))

    def _send(self, name: str, request: CommitRequest) -> None:
        if request.stamp is not None:
            self.retries = [*self.retries[-20:], (name, request)]
        found = self.expected.ask(lambda: self.world.store.commit(name, request, self.world.now_ms))
        if self.expected.is_refused(found):
            return
        self.expected.take_expiries()
        entry = self.expected.accepted.get(name)
        stamp = (request.stamp.id, request.stamp.epoch, request.stamp.seq) if request.stamp else None
        expected = request.condition.offset if request.condition is not None else None
        wanted = plain.decide_commit(
            entry, request.ids, closes=request.closes, stamp=stamp, seq=request.seq, expected=expected
        )
        if wanted == "Commit":
            assert entry is not None
            self.expected.take_change(
                plain.Commit(entry.id, request.ids, request.closes, stamp, request.seq, self.world.now_ms)
            )
        elif entry is not None and wanted == "Duplicate" and entry.ttl_ms is not None:
            entry.renew(self.world.now_ms)
        self.expected.take_renewals()
        tail = entry.tail if entry is not None else 0
        self.expected.expect(found, wanted, f"commit {name} {request.ids} {stamp}", tail)

    def drop(self) -> None:
        name, id = self.requests.some_name(), self.random.choice(_IDS)
        found = self.expected.ask(lambda: self.world.store.drop_part(name, id, self.world.now_ms))
        if self.expected.is_refused(found):
            return
        entry = self.expected.accepted.get(name)
        if entry is not None and entry.expired(self.world.now_ms):
            self.expected.take_expiries()
            entry = self.expected.accepted.get(name)
        wanted = "NotFound" if entry is None else "SoftDeleted" if entry.soft_deleted else "Drop"
        if entry is not None and id in entry.parts:
            self.expected.take_change(plain.Drop(entry.id, [id]))
        self.expected.expect(found, wanted, f"drop {name} {id}")
