"""The streams of the scripted server: content, closure and producers, in memory.

A stream is its bytes and the positions where messages end. Clients must treat offsets as opaque; with
`odd_offsets` they have an unusual form, which shows whether a client does.

Refusals are values: a status with its headers.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an append was refused: a status with its headers."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    code: str = ""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A producer's id, epoch and sequence number."""

    producer: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class Appended:
    """An append that was accepted, or was a duplicate."""

    duplicate: bool = False
    epoch: int | None = None
    seq: int | None = None


def is_json(content_type: str) -> bool:
    """Whether a stream of this type holds JSON messages."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


def is_text(content_type: str) -> bool:
    """Whether events can carry this type without base64."""
    return is_json(content_type) or content_type.lower().startswith("text/")


@dataclass
class Stream:
    """One stream. `ends` are the positions where a message ends."""

    content_type: str = "application/octet-stream"
    ttl: str | None = None
    expires_at: str | None = None
    content: bytearray = field(default_factory=bytearray)
    ends: list[int] = field(default_factory=list)
    closed: bool = False
    closed_by: Stamp | None = None
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    last_seq: str | None = None
    odd_offsets: bool = False

    @property
    def json(self) -> bool:
        """Whether its messages are JSON values."""
        return is_json(self.content_type)

    @property
    def tail(self) -> int:
        """The position after the last byte."""
        return len(self.content)

    def offset(self, position: int) -> str:
        """A position as an offset."""
        return f"at.{position:08x}~" if self.odd_offsets else f"{0:016d}_{position:016d}"

    def position(self, offset: str) -> int | None:
        """The position that an offset stands for; None when it is not valid."""
        if offset == "-1":
            return 0
        if offset == "now":
            return self.tail
        try:
            inner = int(offset[3:-1], 16) if self.odd_offsets else int(offset.rpartition("_")[2])
        except ValueError:
            return None
        return inner if self.offset(inner) == offset else None

    def messages(self, start: int = 0, limit: int | None = None) -> list[bytes]:
        """The messages after a position; with a limit in bytes, at least one."""
        found: list[bytes] = []
        size, begin = 0, start
        for end in self.ends[bisect_right(self.ends, start) :]:
            size += end - begin
            if limit is not None and found and size > limit:
                break
            found.append(bytes(self.content[begin:end]))
            begin = end
        return found

    def read(self, start: int, limit: int) -> tuple[bytes, int]:
        """A body for a read from `start`, and the position that it reaches."""
        if self.json:
            messages = self.messages(start, limit)
            return b"[" + b",".join(messages) + b"]", start + sum(map(len, messages))
        chunk = bytes(self.content[start : start + limit])
        return chunk, start + len(chunk)

    def add(self, body: bytes) -> None:
        """Append a body: JSON arrays are flattened one level."""
        for message in elements(body) if self.json else [body]:
            self.content += message
            self.ends.append(len(self.content))

    def append(
        self, body: bytes, content_type: str, stamp: Stamp | None, seq: str | None, *, close: bool
    ) -> Appended | Refusal:
        """Append, close, or both, in the protocol's order of checks."""
        closed = {"Stream-Closed": "true", "Stream-Next-Offset": self.offset(self.tail)}
        if self.closed:
            if close and stamp is not None and stamp == self.closed_by:
                return Appended(True, stamp.epoch, stamp.seq)
            if close and not body and stamp is None:
                return Appended(duplicate=True)
            return Refusal(409, closed, "STREAM_CLOSED")
        if body and content_type.lower() != self.content_type.lower():
            return Refusal(409, {}, "CONTENT_TYPE_MISMATCH")
        verdict = self._judge(stamp) if stamp else Appended()
        if isinstance(verdict, Refusal) or verdict.duplicate:
            return verdict
        if seq is not None:
            if self.last_seq is not None and seq <= self.last_seq:
                return Refusal(409, {}, "SEQUENCE_CONFLICT")
            self.last_seq = seq
        if body:
            self.add(body)
        if stamp:
            self.producers[stamp.producer] = (stamp.epoch, stamp.seq)
        if close:
            self.closed, self.closed_by = True, stamp
        return verdict

    def _judge(self, stamp: Stamp) -> Appended | Refusal:
        epoch, last = self.producers.get(stamp.producer, (stamp.epoch, -1))
        if stamp.epoch < epoch:
            return Refusal(403, {"Producer-Epoch": str(epoch)}, "STALE_EPOCH")
        if stamp.epoch > epoch:
            if stamp.seq != 0:
                return Refusal(400, {}, "EPOCH_MUST_START_AT_ZERO")
            return Appended(False, stamp.epoch, 0)
        if stamp.seq <= last:
            return Appended(True, epoch, last)
        if stamp.seq > last + 1:
            expected = {"Producer-Expected-Seq": str(last + 1), "Producer-Received-Seq": str(stamp.seq)}
            return Refusal(409, expected, "SEQUENCE_GAP")
        return Appended(False, epoch, stamp.seq)


def elements(body: bytes) -> list[bytes]:
    """The messages in a JSON body, each with its own bytes; ValueError when it is not JSON."""
    text = body.decode()
    json.loads(text)
    if not text.strip().startswith("["):
        return [text.strip().encode()]
    decoder = json.JSONDecoder()
    found: list[bytes] = []
    at = text.index("[") + 1
    while True:
        while text[at] in " \t\r\n,":
            at += 1
        if text[at] == "]":
            return found
        _, end = decoder.raw_decode(text, at)
        found.append(text[at:end].encode())
        at = end
