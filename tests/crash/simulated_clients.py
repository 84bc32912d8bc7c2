"""Clients of the simulation that create, append, retry, close, fork, delete and read."""

from millstream.protocol import json_frames
from millstream.protocol.expiry import Lifetime
from millstream.protocol.offsets import START
from millstream.protocol.reads import Chunk, OffsetGone
from millstream.protocol.requests import AppendRequest, CreateRequest, ReadRequest
from millstream.protocol.retention import Retention
from millstream.protocol.streams import NoSpace, NotFound, SoftDeleted, StoreFailed
from millstream.store.pending import Pending

from . import model as plain
from .expectations import Expectations
from .simulated_requests import Requests
from .simulated_world import World


class Clients:
    """Each asks for something, and knows what must come of it."""

    def __init__(self, world: World, expected: Expectations, requests: Requests) -> None:
        self.world = world
        self.random = world.random
        self.expected = expected
        self.requests = requests
        self.retries: list[tuple[str, AppendRequest]] = []

    def append(self) -> None:
        name = self.requests.some_name()
        entry = self.expected.accepted.get(name)
        stamp = self.requests.stamp(entry) if self.random.random() < 0.5 else None
        seq = b"%06d" % self.random.randint(0, 10**6) if self.random.random() < 0.1 else None
        closes = self.random.random() < 0.04
        data = (
            b""
            if closes and self.random.random() < 0.5
            else self.requests.data(entry is not None and entry.json)
        )
        kind = b"application/json" if entry is not None and entry.json else b"application/octet-stream"
        self._send(name, AppendRequest(data, kind, closes, stamp, seq, self.requests.condition(entry)))

    def retry(self) -> None:
        """Send again what was sent before: most of it was stored, some was lost in a crash."""
        if self.retries:
            self._send(*self.random.choice(self.retries))

    def _send(self, name: str, request: AppendRequest) -> None:
        if request.stamp is not None:
            self.retries = [*self.retries[-20:], (name, request)]
        found = self.expected.ask(lambda: self.world.store.append(name, request, self.world.now_ms))
        if self.expected.is_refused(found):
            return
        self.expected.take_expiries()
        entry = self.expected.accepted.get(name)
        stamp = (request.stamp.id, request.stamp.epoch, request.stamp.seq) if request.stamp else None
        expected = request.condition.offset if request.condition is not None else None
        wanted = plain.decide_append(
            entry, request.data, closes=request.closes, stamp=stamp, seq=request.seq, expected=expected
        )
        json = request.content_type == b"application/json"
        if entry is not None and not (entry.closed or entry.soft_deleted):
            wanted = "TypeMismatch" if request.data and entry.json != json else wanted
        if wanted == "Append":
            assert entry is not None
            change = plain.Append(
                entry.id, request.data, request.closes, stamp, request.seq, self.world.now_ms
            )
            self.expected.take_change(change)
        elif entry is not None and wanted in ("Duplicate", "AlreadyClosed") and entry.ttl_ms is not None:
            entry.renew(self.world.now_ms)
        self.expected.take_renewals()
        tail = entry.tail if entry is not None else 0
        self.expected.expect(found, wanted, f"append {name} {len(request.data)} {stamp}", tail)

    def create(self) -> None:
        name = self.random.choice(self.expected.names)
        json = self.random.random() < 0.4
        body = self.requests.data(json) if self.random.random() < 0.3 else b""
        lifetime = self.requests.lifetime()
        retention = self.requests.retention()
        request = CreateRequest(
            body=json_frames.wrap(body) if json and body else body,
            content_type=b"application/json" if json else b"application/octet-stream",
            closed=self.random.random() < 0.1,
            lifetime=lifetime,
            retention=retention,
        )
        found = self.expected.ask(lambda: self.world.store.create(name, request, self.world.now_ms))
        if self.expected.is_refused(found):
            return
        self.expected.take_expiries()
        entry = self.expected.accepted.get(name)
        if entry is None:
            entry = self._new_entry(name, json, lifetime, retention)
            self.expected.take_change(plain.Create(entry, body, request.closed))
            wanted = "Create"
        else:
            wanted = "NameInUse" if entry.soft_deleted else "Exists ConfigMismatch"
        self.expected.take_renewals()
        self.expected.expect(found, wanted, f"create {name}")

    def fork(self) -> None:
        name, source_name = self.random.sample(self.expected.names, 2)
        source = self.expected.accepted.get(source_name)
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
            lifetime=self.requests.lifetime(),
            retention=self.requests.retention(),
        )
        found = self.expected.ask(lambda: self.world.store.create(name, request, self.world.now_ms))
        if self.expected.is_refused(found):
            return
        self.expected.take_expiries()
        entry, source = self.expected.accepted.get(name), self.expected.accepted.get(source_name)
        if entry is not None:
            wanted = "NameInUse" if entry.soft_deleted else "Exists ConfigMismatch"
        else:
            wanted, base = plain.decide_fork(source, offset, sub_offset)
            if wanted == "Create":
                assert source is not None
                lifetime = request.lifetime or self.world.engine.streams.by_name[source_name].stream.lifetime
                retention = request.retention.or_else(source.retention)
                entry = self._new_entry(name, source.json, lifetime, retention)
                entry.attributes = dict(source.attributes)
                self.expected.take_change(plain.Create(entry, b"", False, source.id, base))
        self.expected.take_renewals()
        self.expected.expect(found, wanted, f"fork {source_name} at {offset}+{sub_offset} to {name}")

    def _new_entry(self, name: str, json: bool, lifetime: Lifetime, retention: Retention) -> plain.Entry:
        ttl_ms = lifetime.ttl_s * 1000 if lifetime.ttl_s is not None else None
        id = self.expected.changes[0][1] if self.expected.changes else -1
        return plain.Entry(
            id,
            name,
            json,
            ttl_ms=ttl_ms,
            deadline_ms=lifetime.deadline_ms(self.world.now_ms),
            retention=retention,
            created_ms=self.world.now_ms,
        )

    def delete(self) -> None:
        name = self.requests.some_name()
        found = self.expected.ask(lambda: self.world.store.delete(name, self.world.now_ms))
        if self.expected.is_refused(found):
            return
        entry = self.expected.accepted.get(name)
        if entry is not None and entry.expired(self.world.now_ms):
            self.expected.take_expiries()
            entry = self.expected.accepted.get(name)
        if entry is None:
            wanted = "NotFound"
        elif entry.soft_deleted:
            wanted = "SoftDeleted"
        else:
            wanted = "Delete"
            self.expected.take_change(plain.End(entry.id))
        self.expected.expect(found, wanted, f"delete {name}")

    def read(self) -> None:
        name = self.requests.some_name()
        entry = self.expected.accepted.get(name)
        offset = START
        if entry is not None and entry.pieces and self.random.random() < 0.6:
            offset = sum(len(piece) for piece in entry.pieces[: self.random.randint(0, len(entry.pieces))])
        limit = self.random.choice((1, 50, 400, 10**6))
        entry = self.world.engine.streams.find(name)
        start = entry.start if entry is not None else 0
        found = self.expected.ask(
            lambda: self.world.store.read(name, ReadRequest(offset=offset), limit, self.world.now_ms)
        )
        refused = self.world.engine.journal.refusal is not None
        self.expected.take_expiries()
        entry = self.expected.accepted.get(name)
        if entry is not None and entry.ttl_ms is not None and isinstance(found, Chunk):
            entry.renew(self.world.now_ms)
        self.expected.take_renewals()
        if isinstance(found, Pending):
            found.then(lambda later: self._see(name, later, late=True, refused=refused))
        else:
            if entry is not None and isinstance(found, Chunk | OffsetGone):
                self._see_start(entry, offset, start, found)
            self._see(name, found, late=False, refused=refused)

    def _see_start(self, entry: plain.Entry, offset: int, start: int, found: Chunk | OffsetGone) -> None:
        """A reader learns where a stream begins: there it must begin for ever, or later."""
        if isinstance(found, OffsetGone):
            self.world.check(START < offset < start == found.earliest, f"{entry.name}: {offset} is not gone")
            self.expected.note_seen(entry.number_of_start(found.earliest))
        else:
            wanted = start if offset == START else min(offset, self._durable_tail(entry.name))
            self.world.check(
                found.start == wanted, f"{entry.name}: read at {found.start} instead of {wanted}"
            )
            self.world.check(found.start >= start, f"{entry.name}: what is gone was read")
            if offset == START:
                self.expected.note_seen(entry.number_of_start(start))

    def _see(self, name: str, found: object, *, late: bool, refused: bool) -> None:
        if isinstance(found, NoSpace | StoreFailed):
            return
        entry = self.expected.accepted.get(name)
        if isinstance(found, Chunk):
            assert entry is not None, f"{name} was read, but there is no such stream"
            data = entry.content()
            self.world.check(
                found.data == data[found.start : found.end] and found.end <= entry.tail,
                f"{name}: a reader got other bytes than were written",
            )
            closed = found.closed and found.up_to_date
            self.world.check(not closed or entry.closed, f"{name} was read as closed, but is open")
            self.expected.note_seen(entry.number_of(found.end, closed=closed))
            if found.up_to_date:
                self.world.check(
                    found.end == self._durable_tail(name), f"{name}: the tail was not up to date"
                )
        elif not late and not refused and isinstance(found, NotFound | SoftDeleted):
            durable_lsn = self.world.engine.journal.durable_lsn
            is_missing = entry is None or entry.soft_deleted or entry.history[0][2] > durable_lsn
            self.world.check(is_missing, f"{name} is there, but could not be read")
        if isinstance(found, NotFound | SoftDeleted) and (entry is None or entry.soft_deleted):
            ended = self.expected.accepted.ended.get(name, 0)
            if ended and ended <= self.world.engine.journal.durable_lsn and not refused:
                self.expected.note_seen(ended)

    def _durable_tail(self, name: str) -> int:
        return self.world.engine.streams.by_name[name].tail
