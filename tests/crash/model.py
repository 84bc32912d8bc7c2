"""What streams must be, as plainly as it can be said: a dictionary of lists of bytes.

The model does not know logs, files or locks. It applies the changes that an engine says it has made, one
after the other, each with its number; and it says what the engine ought to decide, from the same rules
written down a second time.
"""

from dataclasses import dataclass, field

from millstream.protocol import json_frames
from millstream.protocol.retention import KEEP_ALL, Retention

Stamp = tuple[bytes, int, int]


@dataclass
class Entry:
    """A stream."""

    id: int
    name: str
    json: bool
    pieces: list[bytes] = field(default_factory=list)  # all that a reader sees, inherited or own
    tail: int = 0
    closed: bool = False
    closed_by: Stamp | None = None
    producers: dict[bytes, Stamp] = field(default_factory=dict)
    seq: bytes | None = None
    ttl_ms: int | None = None
    deadline_ms: int | None = None
    source: int | None = None
    forks: int = 0
    soft_deleted: bool = False
    history: list[tuple[int, bool, int]] = field(default_factory=list)  # tail, closed, number of the change
    parts: dict[str, tuple[bytes, int]] = field(default_factory=dict)  # their bytes, and since when
    retention: Retention = KEEP_ALL
    start: int = 0  # what lies before is gone; the pieces stay here, to compare with
    created_ms: int = 0
    times_ms: list[int] = field(default_factory=list)  # when each piece arrived, which never goes back (X7)
    trims: list[tuple[int, int]] = field(default_factory=list)  # start, number of the change
    attributes: dict[str, object] = field(default_factory=dict)
    last_write_ms: int = 0
    slack_ms: int = 0  # how much longer than their limit of seconds bytes may be kept
    counted_ms: int = 0  # since when they count, if they were written before there was such a limit
    lowered_ms: int | None = None  # the earliest deadline that it got because the clock was set back

    def renew(self, now_ms: int) -> None:
        """Begin its TTL anew, if it has one."""
        if self.ttl_ms is None:
            return
        renewed_ms = now_ms + self.ttl_ms
        if self.deadline_ms is not None and renewed_ms < self.deadline_ms:
            self.lowered_ms = min(renewed_ms, self.lowered_ms or renewed_ms)
        self.deadline_ms = renewed_ms

    def content(self) -> bytes:
        return b"".join(self.pieces)

    def expired(self, now_ms: int) -> bool:
        return self.deadline_ms is not None and now_ms >= self.deadline_ms and not self.soft_deleted

    def number_of(self, tail: int, *, closed: bool) -> int:
        """The change that made the stream at least that long (and closed)."""
        return next(number for t, c, number in self.history if t >= tail and (c or not closed))

    def number_of_start(self, start: int) -> int:
        """The change by which the stream began there; 0 when it has always."""
        return next((number for found, number in self.trims if found == start), 0)

    def may_begin_at(self, start: int, now_ms: int) -> bool:
        """Whether the limits allow that all before a position is gone."""
        position = 0
        young = False
        for piece, written_ms in zip(self.pieces, self.times_ms, strict=True):
            if position == start:
                break
            position += len(piece)
            seconds = self.retention.seconds
            young |= seconds is None or now_ms < written_ms + seconds * 1000
        enough = self.retention.bytes is not None and self.tail - start >= self.retention.bytes
        return position == start and (enough or not young)

    def is_late(self, now_ms: int) -> bool:
        """Whether something is kept for longer than the limit and the slack that there is."""
        seconds, position = self.retention.seconds, 0
        if seconds is None or self.soft_deleted:
            return False
        for piece, written_ms in zip(self.pieces, self.times_ms, strict=True):
            position += len(piece)
            known_ms = max(written_ms, self.created_ms, self.counted_ms)
            slack_ms = max(self.slack_ms, seconds * 1000 // 16)
            if position > self.start and now_ms > known_ms + seconds * 1000 + slack_ms:
                return True
        return False

    def arrival_ms(self, now_ms: int) -> int:
        """The time of what arrives now (rule X7)."""
        return max(now_ms, self.created_ms, *self.times_ms[-1:])

    def kept_times(self) -> list[tuple[int, int]]:
        """Where each piece that is kept begins, and when it arrived."""
        position, found = 0, []
        for piece, time_ms in zip(self.pieces, self.times_ms, strict=True):
            if position >= self.start:
                found.append((position, time_ms))
            position += len(piece)
        return found

    def facts(self) -> tuple[object, ...]:
        """What must be the same after a recovery; deadlines are compared apart."""
        return (
            self.name,
            self.start,
            self.content()[self.start :],
            self.tail,
            self.closed,
            self.closed_by,
            self.producers,
            self.seq,
            self.source,
            self.forks,
            self.soft_deleted,
            self.deadline_ms is None,
            self.parts,
            self.retention,
            self.attributes,
        )


@dataclass(frozen=True)
class Create:
    entry: Entry
    data: bytes
    closed: bool
    source: int | None = None
    base: int = 0


@dataclass(frozen=True)
class Append:
    id: int
    data: bytes
    closes: bool
    stamp: Stamp | None
    seq: bytes | None
    now_ms: int


@dataclass(frozen=True)
class End:
    id: int


@dataclass(frozen=True)
class EndAll:
    ids: list[int]


@dataclass(frozen=True)
class Renew:
    id: int
    deadline_ms: int


@dataclass(frozen=True)
class Stage:
    id: int
    part: str
    data: bytes
    now_ms: int


@dataclass(frozen=True)
class Commit:
    id: int
    parts: list[str]
    closes: bool
    stamp: Stamp | None
    seq: bytes | None
    now_ms: int


@dataclass(frozen=True)
class Drop:
    id: int
    parts: list[str]


@dataclass(frozen=True)
class Trim:
    id: int
    start: int


@dataclass(frozen=True)
class Configure:
    id: int
    ttl_ms: int | None
    deadline_ms: int | None
    retention: Retention
    attributes: dict[str, object]


@dataclass
class Keep:
    """Rows of subscriptions; without a value they are gone."""

    rows: dict[str, bytes | None]


Change = Configure | Create | Append | End | EndAll | Renew | Stage | Commit | Drop | Trim | Keep


class Model:
    """All streams, and the end of those that are no more."""

    def __init__(self) -> None:
        self.streams: dict[int, Entry] = {}
        self.names: dict[str, int] = {}
        self.ended: dict[str, int] = {}  # the number of the change that last ended a name
        self.rows: dict[str, bytes] = {}

    def get(self, name: str) -> Entry | None:
        return self.streams[self.names[name]] if name in self.names else None

    def apply(self, change: Change, number: int) -> int:
        """Make a change; gives how many streams are gone by it."""
        if isinstance(change, Create):
            self._create(change, number)
        elif isinstance(change, Append):
            self._append(change, number)
        elif isinstance(change, Stage):
            entry = self.streams[change.id]
            entry.parts[change.part] = (change.data, change.now_ms)
            entry.renew(change.now_ms)
        elif isinstance(change, Commit):
            self._commit(change, number)
        elif isinstance(change, Drop):
            for part in change.parts:
                del self.streams[change.id].parts[part]
        elif isinstance(change, Renew):
            self.streams[change.id].deadline_ms = change.deadline_ms
        elif isinstance(change, Trim):
            self.streams[change.id].start = change.start
            self.streams[change.id].trims.append((change.start, number))
        elif isinstance(change, Configure):
            self._configure(change)
        elif isinstance(change, Keep):
            rows = self.rows | change.rows
            self.rows = {key: value for key, value in rows.items() if value is not None}
        elif isinstance(change, EndAll):
            return sum(self._end(self.streams[id], number) for id in change.ids)
        else:
            return self._end(self.streams[change.id], number)
        return 0

    def _create(self, change: Create, number: int) -> None:
        entry = change.entry
        # A fresh one each time: the same change is applied again when a crash is checked.
        entry = Entry(
            entry.id,
            entry.name,
            entry.json,
            ttl_ms=entry.ttl_ms,
            deadline_ms=entry.deadline_ms,
            retention=entry.retention,
            created_ms=entry.created_ms,
            attributes=dict(entry.attributes),
            last_write_ms=entry.created_ms,
        )
        if change.source is not None:
            source = self.streams[change.source]
            source.forks += 1
            entry.source = change.source
            entry.pieces = _first(source.pieces, change.base)
            entry.times_ms = source.times_ms[: len(entry.pieces)]
            if change.base == source.start:  # nothing is left of what it inherits, also not when that arrived
                entry.times_ms = [0] * len(entry.pieces)
            entry.start = source.start
            entry.slack_ms, entry.counted_ms = source.slack_ms, source.counted_ms
        if change.data:
            entry.pieces.append(change.data)
            entry.times_ms.append(entry.arrival_ms(entry.created_ms))
        entry.tail = len(entry.content())
        entry.closed = change.closed
        entry.history.append((entry.tail, entry.closed, number))
        self.streams[entry.id] = entry
        self.names[entry.name] = entry.id

    def _append(self, change: Append, number: int) -> None:
        entry = self.streams[change.id]
        if change.data:
            entry.pieces.append(change.data)
            entry.times_ms.append(entry.arrival_ms(change.now_ms))
        entry.tail += len(change.data)
        entry.last_write_ms = max(change.now_ms, entry.last_write_ms)
        if change.stamp is not None:
            entry.producers[change.stamp[0]] = change.stamp
        if change.seq is not None:
            entry.seq = change.seq
        if change.closes:
            entry.closed, entry.closed_by = True, change.stamp
            entry.parts.clear()
        entry.renew(change.now_ms)
        entry.history.append((entry.tail, entry.closed, number))

    def _commit(self, change: Commit, number: int) -> None:
        entry = self.streams[change.id]
        pieces = [entry.parts.pop(part)[0] for part in change.parts]
        entry.pieces += pieces
        entry.times_ms += [entry.arrival_ms(change.now_ms)] * len(pieces)
        entry.tail += sum(map(len, pieces))
        rest = Append(change.id, b"", change.closes, change.stamp, change.seq, change.now_ms)
        self._append(rest, number)

    def _configure(self, change: Configure) -> None:
        entry = self.streams[change.id]
        before, after = entry.retention.seconds, change.retention.seconds
        if before is None and after is not None:  # they count as written last
            entry.counted_ms = max([entry.last_write_ms, *entry.times_ms[-1:]])
        entry.slack_ms = max(entry.slack_ms, (before or 0) * 1000 // 16) if after is not None else 0
        entry.ttl_ms, entry.deadline_ms = change.ttl_ms, change.deadline_ms
        entry.retention, entry.attributes = change.retention, dict(change.attributes)

    def _end(self, entry: Entry, number: int) -> int:
        self.ended[entry.name] = number
        entry.parts.clear()
        if entry.forks:
            entry.soft_deleted = True
            return 0
        gone = 0
        while True:
            gone += 1
            del self.streams[entry.id]
            del self.names[entry.name]
            self.ended[entry.name] = number
            if entry.source is None:
                return gone
            entry = self.streams[entry.source]
            entry.forks -= 1
            if not entry.soft_deleted or entry.forks:
                return gone


def decide_stage(entry: Entry | None, part: str, data: bytes, *, json: bool) -> str:
    """Name the decision that a part must meet (rule X3)."""
    if entry is None:
        return "NotFound"
    if entry.soft_deleted:
        return "SoftDeleted"
    if entry.closed:
        return "Closed"
    if entry.json != json:
        return "TypeMismatch"
    if part in entry.parts:
        return "AlreadyStaged" if entry.parts[part][0] == data else "PartConflict"
    return "Stage"


def decide_commit(
    entry: Entry | None,
    parts: list[str],
    *,
    closes: bool,
    stamp: Stamp | None,
    seq: bytes | None,
    expected: int | None,
) -> str:
    """Name the decision that a commit must meet: that of an append, then its parts, then the tail."""
    found = decide_append(entry, b"some", closes=closes, stamp=stamp, seq=seq, expected=None)
    if found != "Append" or entry is None:
        return found
    if any(part not in entry.parts for part in parts):
        return "PartMissing"
    return "OffsetConflict" if expected not in (None, entry.tail) else "Commit"


def decide_append(
    entry: Entry | None,
    data: bytes,
    *,
    closes: bool,
    stamp: Stamp | None,
    seq: bytes | None,
    expected: int | None,
) -> str:
    """Name the decision that an append must meet (rules A2, A5 to A7, R2, X6)."""
    if entry is None:
        return "NotFound"
    if entry.soft_deleted:
        return "SoftDeleted"
    last = entry.producers.get(stamp[0]) if stamp is not None else None
    if entry.closed:
        if stamp is not None and stamp == entry.closed_by:
            return "Duplicate"
        return "AlreadyClosed" if closes and not data and stamp is None else "Closed"
    if stamp is not None:
        refusal = _judge(last, stamp)
        if refusal is not None:
            return refusal
    if seq is not None and entry.seq is not None and seq <= entry.seq:
        return "SeqRegressed"
    return "OffsetConflict" if expected not in (None, entry.tail) else "Append"


def _judge(last: Stamp | None, stamp: Stamp) -> str | None:
    _, epoch, seq = stamp
    if last is None:
        return None if seq == 0 else "Gap"
    if epoch < last[1]:
        return "Fenced"
    if epoch > last[1]:
        return None if seq == 0 else "BadStart"
    if seq <= last[2]:
        return "Duplicate"
    return None if seq == last[2] + 1 else "Gap"


def decide_fork(source: Entry | None, offset: int | None, sub_offset: int) -> tuple[str, int]:
    """Name the decision that a fork must meet, and where its own bytes begin (rule F1)."""
    if source is None:
        return "SourceNotFound", 0
    if source.soft_deleted:
        return "SourceDeleted", 0
    anchor = source.tail if offset is None else offset
    if anchor > source.tail:
        return "ForkBeyondTail", 0
    if anchor < source.start:
        return "ForkBeforeStart", 0
    if sub_offset == 0:
        return "Create", anchor
    following = next_piece(source, anchor)
    ends = json_frames.message_ends(following) if source.json else list(range(1, len(following) + 1))
    if sub_offset > len(ends):
        return "SubOffsetOvershoot", 0
    return "Create", anchor + ends[sub_offset - 1]


def next_piece(entry: Entry, position: int) -> bytes:
    """The append that begins at a position, if there is one."""
    start = 0
    for piece in entry.pieces:
        if start == position:
            return piece
        start += len(piece)
    return b""


def _first(pieces: list[bytes], size: int) -> list[bytes]:
    found: list[bytes] = []
    for piece in pieces:
        if size <= 0:
            break
        found.append(piece[:size])
        size -= len(piece)
    return found
