"""What the engine is expected to be, decide and answer: the model, kept up with every change that it makes.

The engine shows which changes it makes (`changes`); each must be one that the request, or the time, called
for. The last change that a client was answered or has read is `seen_lsn`: no crash may undo it.
"""

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

from millstream.protocol import staging
from millstream.protocol.parts import Commit
from millstream.protocol.streams import NoSpace, StoreFailed
from millstream.store.log.wal.format import (
    AppendMeta,
    CommitMeta,
    ConfigureMeta,
    CreateMeta,
    DropMeta,
    EndMeta,
    RenewMeta,
    StageMeta,
    TrimMeta,
)
from millstream.store.pending import Pending

from . import model as plain
from .comparison import compare
from .simulated_engine import Change
from .simulated_world import World

_WITH_TAIL = ("Append", "Duplicate", "Closed", "SeqRegressed", "OffsetConflict")

_EXPECTED: dict[type, type] = {
    plain.Create: CreateMeta,
    plain.Append: AppendMeta,
    plain.End: EndMeta,
    plain.Stage: StageMeta,
    plain.Commit: CommitMeta,
    plain.Drop: DropMeta,
    plain.Configure: ConfigureMeta,
    plain.Trim: TrimMeta,
}


class Expectations:
    """The model of one run, and how much of it clients have seen."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.names = [f"/s{i}" for i in range(5)] + [f"/f{i}" for i in range(6)]
        self.accepted = plain.Model()
        self.base = plain.Model()  # as it was recovered, and what was changed since
        self.base_lsn = 0
        self.log_of_changes: list[tuple[int, plain.Change]] = []
        self.seen_lsn = 0  # the last change that a client was answered or has read
        self.changes: list[Change] = []
        self.taken_lsn: int | None = None  # the change that the last request has made, if it made one
        self.rows_made: deque[tuple[int, dict[str, bytes | None]]] = deque()  # and not taken in yet
        self.waiting: list[Pending[Any]] = []  # answers that clients wait for

    # -- A request and its answer ------------------------------------------------------------------

    def ask(self, request: Callable[[], Any]) -> Any:
        """Make a request, and take in what it found to be over."""
        self.changes.clear()
        self.taken_lsn = None
        found = request()
        if not isinstance(found, Pending):
            for lsn, id, meta, _ in list(self.changes):
                if isinstance(meta, DropMeta):
                    self._take_part_expiry(lsn, id, meta)
                ended = self.accepted.streams.get(id)
                if isinstance(meta, EndMeta) and ended is not None and ended.expired(self.world.now_ms):
                    self._take_end(lsn, id, meta)
        return found

    def is_refused(self, found: object) -> bool:
        """Whether the disk is in the way; then there must be a reason, and no change."""
        if not isinstance(found, NoSpace | StoreFailed):
            return False
        self.world.check(not self.changes, "a refused request changed something")
        self.world.check(
            self.world.engine.journal.refusal is not None, "a request was refused without a reason"
        )
        return True

    def expect(
        self, found: Any, wanted: str, what: str, tail: int | None = None, lsn: int | None = None
    ) -> None:
        """The answer must be what is wanted, now or later.

        Its client has then seen everything until now, or up to a change.
        """
        self.world.check(not self.changes, f"{what}: {self.changes} was not expected")
        last_lsn = self.last_lsn()
        if lsn is None:  # rows of subscriptions may follow a change, and its answer does not wait for them
            lsn = self.taken_lsn if self.taken_lsn is not None else last_lsn
        self.world.say(f"{what}: {wanted} {lsn} {'...' if isinstance(found, Pending) else ''}")

        def settled(decision: Any) -> None:
            name = type(decision).__name__
            if name in ("NoSpace", "StoreFailed"):
                return
            self.world.check(name in wanted.split(), f"{what}: {name} instead of {wanted}")
            if tail is not None and hasattr(decision, "tail") and wanted in _WITH_TAIL:
                self.world.check(decision.tail == tail, f"{what}: tail {decision.tail} instead of {tail}")
            if isinstance(decision, Commit):
                self.world.check(
                    decision.append.tail == tail, f"{what}: tail {decision.append.tail}, not {tail}"
                )
            self.note_seen(lsn)

        if isinstance(found, Pending):
            self.waiting = [*self.waiting[-30:], found]
            found.then(settled)
        else:
            settled(found)

    def note_seen(self, lsn: int) -> None:
        """Note that a client has seen a change."""
        self.seen_lsn = max(self.seen_lsn, lsn)

    # -- Which changes it made ---------------------------------------------------------------------

    def take_change(self, change: plain.Change) -> None:
        """Take in the change that a request was expected to make."""
        expected = _EXPECTED[type(change)]
        self.world.check(bool(self.changes), f"{change} was expected, but nothing happened")
        lsn, _id, meta, _ = self.changes.pop(0)
        self.world.check(isinstance(meta, expected), f"{change} was expected, but {meta} happened")
        self._note(lsn, change)
        self.taken_lsn = lsn

    def take_expiries(self) -> None:
        """Take in that streams ended, or parts went, because their time was over."""
        for lsn, id, meta, _ in list(self.changes):
            if isinstance(meta, EndMeta):
                self._take_expiry(lsn, id, meta)
            elif isinstance(meta, DropMeta):
                self._take_part_expiry(lsn, id, meta)

    def take_renewals(self) -> None:
        """Take in that TTLs began anew; nothing else may be left."""
        for lsn, id, meta, _ in self.changes:
            assert isinstance(meta, RenewMeta), meta
            self._note(lsn, plain.Renew(id, meta.deadline_ms))
        self.changes.clear()

    def take_trims(self) -> None:
        """Take in that streams begin later, because limits were set."""
        for lsn, id, meta, _ in list(self.changes):
            if isinstance(meta, TrimMeta):
                self._take_trim(lsn, id, meta)
                self.changes = [change for change in self.changes if change[0] != lsn]

    def take_due(self) -> None:
        """Take in what a tick did: what ended, went or was renewed of itself, and nothing too late."""
        for lsn, id, meta, _ in list(self.changes):
            if isinstance(meta, EndMeta):
                self._take_expiry(lsn, id, meta)
            elif isinstance(meta, TrimMeta):
                self._take_trim(lsn, id, meta)
            elif isinstance(meta, DropMeta):
                self._take_part_expiry(lsn, id, meta)
            else:
                assert isinstance(meta, RenewMeta), meta
                self._note(lsn, plain.Renew(id, meta.deadline_ms))
        self.changes.clear()
        if self.world.engine.journal.refusal is None:
            # A TTL that began anew after the clock was set back ends earlier than it would have.
            now_ms = self.world.now_ms - self.world.set_back_ms
            late = [e.name for e in self.accepted.streams.values() if e.expired(now_ms)]
            self.world.check(not late, f"{late} outlived their time")
            # So does what a fork has inherited: times never go back (rule X7).
            late = [e.name for e in self.accepted.streams.values() if e.is_late(now_ms)]
            self.world.check(not late, f"{late} keep what is too old")

    def _take_expiry(self, lsn: int, id: int, meta: EndMeta) -> None:
        """Take in that streams ended because their time was over: one, or several in one record."""
        streams = self.accepted.streams
        ended = [gone for gone in meta.gone if not streams[gone].soft_deleted] or [id]
        for one in ended:
            self.world.check(streams[one].expired(self.world.now_ms), f"{one} ended before its time")
        if len(ended) == 1:
            self._take_end(lsn, id, meta)
            return
        gone = self._note(lsn, plain.EndAll(ended))
        self.world.check(gone == len(meta.gone), f"{gone} streams should be gone, but {len(meta.gone)} are")
        self.changes = [change for change in self.changes if change[0] != lsn]

    def _take_end(self, lsn: int, id: int, meta: EndMeta) -> None:
        gone = self._note(lsn, plain.End(id))
        self.world.check(gone == len(meta.gone), f"{gone} streams should be gone, but {len(meta.gone)} are")
        self.changes = [change for change in self.changes if change[0] != lsn]

    def _take_trim(self, lsn: int, id: int, meta: TrimMeta) -> None:
        entry = self.accepted.streams[id]
        self.world.say(f"trim {entry.name} to {meta.start}: {lsn}")
        self.world.check(
            entry.start < meta.start <= entry.tail and entry.may_begin_at(meta.start, self.world.now_ms),
            f"{entry.name} from {entry.start} to {entry.tail} must not begin at {meta.start}",
        )
        self._note(lsn, plain.Trim(id, meta.start))

    def _take_part_expiry(self, lsn: int, id: int, meta: DropMeta) -> None:
        """Take in that parts expired because they were not committed in time."""
        entry = self.accepted.streams[id]
        for part in meta.ids:
            since_ms = entry.parts[part][1]
            self.world.check(
                self.world.now_ms >= since_ms + staging.PART_LIFETIME_MS,
                f"{entry.name}: part {part} went before its time",
            )
        self._note(lsn, plain.Drop(id, meta.ids))
        self.changes[:] = [change for change in self.changes if change[0] != lsn]

    def _note(self, lsn: int, change: plain.Change) -> int:
        if not isinstance(change, plain.Keep):
            self._take_rows(lsn)
        expected = self.log_of_changes[-1][0] + 1 if self.log_of_changes else self.base_lsn + 1
        self.world.check(lsn == expected, f"change {expected} was expected, but it is numbered {lsn}")
        self.log_of_changes.append((lsn, change))
        return self.accepted.apply(change, lsn)

    def on_rows(self, lsn: int, rows: dict[str, bytes | None]) -> None:
        """Remember rows of subscriptions, which come before, between and after other changes."""
        self.rows_made.append((lsn, rows))

    def _take_rows(self, before: int | None = None) -> None:
        """Take in the rows that were made, or those before a change."""
        while self.rows_made and (before is None or self.rows_made[0][0] < before):
            lsn, rows = self.rows_made.popleft()
            self._note(lsn, plain.Keep(rows))

    def last_lsn(self) -> int:
        """Give the number of the last change."""
        self._take_rows()
        return self.log_of_changes[-1][0] if self.log_of_changes else self.base_lsn

    # -- After a crash, or a full disk -------------------------------------------------------------

    def on_crash(self) -> None:
        """Nobody waits any more, and what was just changed may be lost."""
        if not self.changes:
            self._take_rows()
        self.rows_made.clear()
        self.waiting.clear()
        self.changes.clear()

    def on_adopt(self) -> None:
        """The engine returned to what is durable: it must be a state that it was in, and not too old."""
        lsn = self.world.engine.journal.lsn
        self.world.check(lsn >= self.seen_lsn, f"recovered up to {lsn}, but {self.seen_lsn} was seen")
        self.world.check(
            lsn <= self.last_lsn(), f"recovered up to {lsn}, but only {self.last_lsn()} was made"
        )
        state = copy.deepcopy(self.base)
        for number, change in self.log_of_changes:
            if number <= lsn:
                state.apply(change, number)
        compare(self.world, self.names, state, self.accepted)
        self.base, self.base_lsn, self.log_of_changes = copy.deepcopy(state), lsn, []
        self.accepted = state
        self.changes.clear()
