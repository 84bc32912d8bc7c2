"""A store as plainly as it can be written: every stream is a list of appends, and a fork is a copy.

It knows the rules from `protocol.md`, not from the code, and is slow on purpose.
"""

from dataclasses import dataclass, field

from millstream.protocol.producers import Stamp


@dataclass
class ModelStream:
    """What a client can know of a stream."""

    name: str
    content_type: bytes
    appends: list[list[bytes]]  # each append is a list of messages, as they are stored
    base: int = 0
    closed: bool = False
    closed_by: Stamp | None = None
    producers: dict[bytes, Stamp] = field(default_factory=dict)
    ttl_ms: int | None = None
    deadline_ms: int | None = None
    source: "ModelStream | None" = None
    forks: int = 0
    deleted: bool = False
    parts: dict[str, list[bytes]] = field(default_factory=dict)  # their messages, as they will be stored
    fingerprints: dict[Stamp, str] = field(default_factory=dict)  # of the last such commit of a producer
    created_ms: int = 0
    times: list[int] = field(default_factory=list)  # when each append arrived (X7)

    def arrival_ms(self, now_ms: int) -> int:
        return max(now_ms, self.created_ms, *self.times)

    def since(self, time_ms: int) -> int:
        """Where the first append begins that arrived at a time or later (X7)."""
        position = 0
        for append, arrived_ms in zip(self.appends, self.times, strict=True):
            if arrived_ms >= time_ms:
                return position
            position += sum(map(len, append))
        return position

    def last(self, count: int, *, json: bool) -> bytes:
        """The last messages of a JSON stream, the last appends of another (X8)."""
        pieces = [message for append in self.appends for message in append]
        if not json:
            pieces = [b"".join(append) for append in self.appends]
        return b"".join(pieces[max(0, len(pieces) - count) :])

    @property
    def content(self) -> bytes:
        return b"".join(message for append in self.appends for message in append)

    def positions(self) -> list[int]:
        """Where a reader may be: between messages of a JSON stream."""
        found = [0]
        for append in self.appends:
            for message in append:
                found.append(found[-1] + len(message))
        return found


class Model:
    """All streams by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, ModelStream] = {}

    def visible(self) -> list[str]:
        return sorted(name for name, stream in self.by_name.items() if not stream.deleted)

    # -- What happens when a request is accepted -------------------------------------------------

    def create(self, stream: ModelStream, now_ms: int) -> None:
        self.by_name[stream.name] = stream
        stream.created_ms = now_ms
        if stream.source is not None:  # a cut of an append is the last one that is inherited
            stream.times = stream.source.times[: len(stream.appends)]
        stream.times += [stream.arrival_ms(now_ms)] * (len(stream.appends) - len(stream.times))
        if stream.source is not None:
            stream.source.forks += 1
        self.use(stream, now_ms)

    def use(self, stream: ModelStream, now_ms: int) -> None:
        if stream.ttl_ms is not None:
            stream.deadline_ms = now_ms + stream.ttl_ms

    def delete(self, stream: ModelStream) -> None:
        stream.deleted = True
        stream.parts.clear()
        gone: ModelStream | None = stream
        while gone is not None and gone.deleted and gone.forks == 0:
            del self.by_name[gone.name]
            gone = gone.source
            if gone is not None:
                gone.forks -= 1

    def expire(self, now_ms: int) -> None:
        for stream in list(self.by_name.values()):
            if stream.deadline_ms is not None and stream.deadline_ms <= now_ms and not stream.deleted:
                self.delete(stream)

    # -- What a request is answered --------------------------------------------------------------

    def verdict(
        self,
        stream: ModelStream,
        data: bytes,
        closes: bool,
        stamp: Stamp | None,
        expected: int | None = None,
    ) -> str:
        """Name the decision on an append whose content type is right (rules A2, A5 to A7, R2, X6)."""
        decision = self._verdict(stream, data, closes, stamp)
        is_elsewhere = expected is not None and expected != len(stream.content)
        return "OffsetConflict" if decision == "Append" and is_elsewhere else decision

    def _verdict(self, stream: ModelStream, data: bytes, closes: bool, stamp: Stamp | None) -> str:
        last = stream.producers.get(stamp.id) if stamp is not None else None
        if stream.closed:
            if stamp is not None and stamp == stream.closed_by:
                return "Duplicate"
            return "AlreadyClosed" if closes and not data and stamp is None else "Closed"
        if stamp is None:
            return "Append"
        if last is None:
            return "Append" if stamp.seq == 0 else "Gap"
        if stamp.epoch < last.epoch:
            return "Fenced"
        if stamp.epoch > last.epoch:
            return "Append" if stamp.seq == 0 else "BadStart"
        if stamp.seq <= last.seq:
            return "Duplicate"
        return "Append" if stamp.seq == last.seq + 1 else "Gap"

    def append(
        self, stream: ModelStream, messages: list[bytes], closes: bool, stamp: Stamp | None, now_ms: int
    ) -> None:
        if messages:
            stream.appends.append(messages)
            stream.times.append(stream.arrival_ms(now_ms))
        if stamp is not None:
            stream.producers[stamp.id] = stamp
        if closes:
            stream.closed, stream.closed_by = True, stamp
            stream.parts.clear()
        self.use(stream, now_ms)

    def stage(self, stream: ModelStream, id: str, messages: list[bytes], now_ms: int) -> str:
        """Name the decision on a part (rule X3), and take it in if it is kept."""
        if stream.closed:
            return "Closed"
        if id in stream.parts and stream.parts[id] != messages:
            return "PartConflict"
        decision = "AlreadyStaged" if id in stream.parts else "Stage"
        stream.parts[id] = messages
        self.use(stream, now_ms)
        return decision

    def commit(
        self,
        stream: ModelStream,
        ids: list[str],
        closes: bool,
        stamp: Stamp | None,
        expected: int | None,
        fingerprint: str | None,
        now_ms: int,
    ) -> str:
        """Name the decision on a commit (rules X3, X5, X6), and make it if it is one."""
        decision = self.verdict(stream, b"some data", closes, stamp)
        known = stream.fingerprints.get(stamp) if stamp is not None else None
        if decision == "Duplicate" and None not in (known, fingerprint) and known != fingerprint:
            return "FingerprintDiffers"
        if decision == "Duplicate":
            self.use(stream, now_ms)
        if decision != "Append":
            return decision
        if any(id not in stream.parts for id in ids):
            return "PartMissing"
        if expected is not None and expected != len(stream.content):
            return "OffsetConflict"
        stream.appends += [stream.parts.pop(id) for id in ids]
        stream.times += [stream.arrival_ms(now_ms)] * len(ids)
        self.append(stream, [], closes, stamp, now_ms)
        if stamp is not None and fingerprint is not None:
            others = {one: text for one, text in stream.fingerprints.items() if one.id != stamp.id}
            stream.fingerprints = others | {stamp: fingerprint}
        return "Commit"

    def inherited(self, source: ModelStream, end: int) -> list[list[bytes]]:
        """Copy a source's appends up to a position, which may be inside of one of them."""
        copied: list[list[bytes]] = []
        at = 0
        for append in source.appends:
            taken: list[bytes] = []
            for message in append:
                if at < end:
                    taken.append(message[: end - at])
                at += len(message)
            if taken:
                copied.append(taken)
        return copied

    def next_append(self, source: ModelStream, position: int) -> list[bytes]:
        """Give what is left of the append that a position is in: messages of it."""
        at = 0
        for append in source.appends:
            size = sum(map(len, append))
            if at <= position < at + size:
                left: list[bytes] = []
                for message in append:
                    if at + len(message) > position:
                        left.append(message[max(0, position - at) :])
                    at += len(message)
                return left
            at += size
        return []
