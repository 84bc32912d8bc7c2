"""Clients of the simulation that change what lives: PATCH and trims (rule X10)."""

import json
from typing import Any

from millstream.protocol.configuration import parse_configure
from millstream.protocol.offsets import NOW, START
from millstream.protocol.retention import Retention
from millstream.protocol.trims import Trimmed, TrimRequest
from millstream.store.log.wal.format import ConfigureMeta

from . import model as plain
from .expectations import Expectations
from .simulated_requests import Requests
from .simulated_world import World


class ChangeClients:
    """Each changes a stream without adding to it, and knows what must come of it."""

    def __init__(self, world: World, expected: Expectations, requests: Requests) -> None:
        self.world = world
        self.random = world.random
        self.expected = expected
        self.requests = requests

    def configure(self) -> None:
        name = self.requests.some_name()
        fields = self._fields()
        request = parse_configure({f"stream-{key}".encode(): value for key, value in fields.items()}, b"")
        found = self.expected.ask(lambda: self.world.store.configure(name, request, self.world.now_ms))
        if self.expected.is_refused(found):
            return
        self.expected.take_expiries()
        entry = self.expected.accepted.get(name)
        lsn: int | None = None
        if entry is None or entry.soft_deleted:
            wanted = "NotFound" if entry is None else "SoftDeleted"
        else:
            wanted, change = "Configured", self._changed(entry, fields)
            if any(isinstance(meta, ConfigureMeta) for _, _, meta, _ in self.expected.changes):
                self.expected.take_change(change)
                lsn = self.expected.last_lsn()  # its answer does not wait for what is trimmed by it
                self.expected.take_trims()
            else:
                same = (entry.ttl_ms, entry.retention, entry.attributes)
                self.world.check(
                    same == (change.ttl_ms, change.retention, change.attributes)
                    and entry.deadline_ms == change.deadline_ms,
                    f"{name}: {fields} changed nothing",
                )
        self.expected.expect(found, wanted, f"configure {name} {fields}", lsn=lsn)

    def _fields(self) -> dict[str, bytes]:
        """What a PATCH says, without `Stream-`."""
        dice, fields = self.random, dict[str, bytes]()
        if dice.random() < 0.3:
            fields["ttl"] = dice.choice((b"none", b"%d" % dice.randint(2, 40)))
        elif dice.random() < 0.15:
            fields["expires-at"] = b"none"
        if dice.random() < 0.5:
            fields["retain-bytes"] = dice.choice((b"none", b"100", b"700", b"3000"))
        if dice.random() < 0.3:
            fields["retain-seconds"] = dice.choice((b"none", b"2", b"10", b"40"))
        if dice.random() < 0.4:
            noted = {dice.choice("abc"): dice.choice((None, 1, "x", True)) for _ in range(2)}
            fields["attributes"] = json.dumps(noted).encode()
        return fields

    def _changed(self, entry: plain.Entry, fields: dict[str, bytes]) -> plain.Configure:
        ttl_ms, deadline_ms = entry.ttl_ms, entry.deadline_ms
        ttl = fields.get("ttl")
        if ttl == b"none" and ttl_ms is not None:
            ttl_ms = deadline_ms = None
        elif ttl is not None and ttl != b"none":
            ttl_ms = int(ttl) * 1000
            deadline_ms = self.world.now_ms + ttl_ms
        if "expires-at" in fields and ttl_ms is None:
            deadline_ms = None
        limits = Retention(
            _limit(fields.get("retain-bytes"), entry.retention.bytes),
            _limit(fields.get("retain-seconds"), entry.retention.seconds),
        )
        noted: dict[str, Any] = {**entry.attributes, **json.loads(fields.get("attributes", b"{}"))}
        noted = {name: value for name, value in noted.items() if value is not None}
        return plain.Configure(entry.id, ttl_ms, deadline_ms, limits, noted)

    def trim(self) -> None:
        name = self.requests.some_name()
        entry = self.expected.accepted.get(name)
        tail = entry.tail if entry is not None else 0
        before = self.random.choice((START, NOW, self.random.randint(0, tail + 1), tail))
        found = self.expected.ask(lambda: self.world.store.trim(name, TrimRequest(before), self.world.now_ms))
        if self.expected.is_refused(found):
            return
        self.expected.take_expiries()
        entry = self.expected.accepted.get(name)
        wanted, start, lsn = "Trimmed", 0, None
        if entry is None or entry.soft_deleted:
            wanted = "NotFound" if entry is None else "SoftDeleted"
        elif before > entry.tail:
            wanted = "TrimBeyondTail"
        else:
            start = max(entry.start, _begin_of(entry, entry.tail if before == NOW else before))
            if start > entry.start:
                self.expected.take_change(plain.Trim(entry.id, start))
                lsn = self.expected.last_lsn()  # nor for the record of a renewed TTL
            if entry.ttl_ms is not None:
                entry.renew(self.world.now_ms)
        self.expected.take_renewals()
        if isinstance(found, Trimmed):
            self.world.check(found.start == start, f"{name}: begins at {found.start}, not {start}")
        self.expected.expect(found, wanted, f"trim {name} before {before}", lsn=lsn)


def _limit(text: bytes | None, before: int | None) -> int | None:
    return before if text is None else None if text == b"none" else int(text)


def _begin_of(entry: plain.Entry, position: int) -> int:
    """The beginning of the append that holds a position; at the tail, the tail."""
    begin = 0
    for piece in entry.pieces:
        if begin + len(piece) > position:
            break
        begin += len(piece)
    return begin
