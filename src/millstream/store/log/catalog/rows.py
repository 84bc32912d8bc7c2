"""The rows of the catalog, as values; each has a checksum of everything in it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from millstream.protocol.producers import ProducerState
from millstream.protocol.streams import Stream
from millstream.store.log.crc import crc32c
from millstream.store.log.files.layout import former_layout
from millstream.store.log.files.places import Former, Packed, Place, decode_place, encode_place
from millstream.store.log.wal.segments import DamagedError

_encode = msgspec.msgpack.Encoder().encode
_encode_stream = msgspec.msgpack.Encoder().encode
_decode_stream = msgspec.msgpack.Decoder(Stream).decode


def with_sum(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give the values of a row and their checksum."""
    return *values, sum_of(values)


def sum_of(values: tuple[Any, ...]) -> int:
    """Give the checksum of the values of a row."""
    return crc32c(_encode(values))


class Row(NamedTuple):
    """A stream in the catalog: its state, and how much of its content its files hold.

    It is a tuple, which SQLite takes as it is: a checkpoint makes one for each stream that has changed.
    """

    stream_id: int
    name: str
    deadline_ms: int | None
    flushed: int
    appends: int
    state: bytes
    place: bytes | None
    sum: int | None

    @classmethod
    def of(cls, stream: Stream, flushed: int, appends: int, place: Place) -> "Row":
        """Encode a stream."""
        return cls.checked(
            stream.id,
            stream.name,
            stream.due_ms,
            flushed,
            appends,
            _encode_stream(stream),
            encode_place(place),
        )

    @classmethod
    def checked(cls, *values: Any) -> "Row":
        """Make a row with its checksum."""
        return cls._make(with_sum(values))

    def moved(self, place: Place) -> "Row":
        """Give the row with the stream's bytes in another place."""
        return Row.checked(*self[:-2], encode_place(place))

    def stream(self) -> Stream:
        """Read the stream's state."""
        try:
            return _decode_stream(self.state)
        except (msgspec.MsgspecError, TypeError) as error:  # a row without a checksum is known by this only
            raise self._damaged() from error

    def where(self) -> Place:
        """Read where the stream's bytes are."""
        return (
            decode_place(self.place)
            if self.place is not None
            else Former(former_layout(self.stream().retention))
        )

    def verify(self) -> None:
        """Raise an error if anything in the row is not as it was written."""
        is_former = self.sum is None and self.place is None
        if not is_former and sum_of(self[:-1]) != self.sum:
            raise self._damaged()

    def _damaged(self) -> DamagedError:
        return DamagedError(f"catalog.db: the row of stream {self.stream_id} ({self.name}) is damaged.")


class ProducerRow(msgspec.Struct, frozen=True, gc=False):
    """A producer of a stream in the catalog; without a state it is forgotten."""

    stream_id: int
    producer_id: bytes
    state: ProducerState | None


class PackRow(msgspec.Struct, frozen=True, gc=False):
    """A pack: where it ends, and how many of its bytes nothing refers to."""

    number: int
    end: int
    freed: int


class HeldRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of the log about a stream that could not be saved."""

    stream_id: int
    """The stream that is held back; the record may be about a fork of it."""
    lsn: int
    record: bytes


class Due(msgspec.Struct, frozen=True):
    """A stream that was due; also the place to continue from."""

    deadline_ms: int
    stream_id: int
    name: str


BEGINNING = Due(-1, -1, "")


class Changes(msgspec.Struct, frozen=True):
    """What one checkpoint changes in the catalog."""

    changed: Iterable[Row]
    """Best by id; gone through once, so that a million of them need not be in memory."""
    producers: list[ProducerRow]
    gone: list[int]
    facts: dict[str, int]
    held: Sequence[HeldRecord] = ()
    """Records of streams whose rows stay as they are."""
    pack_ends: Mapping[int, int] = {}
    freed: Mapping[int, int] = {}
    """How many more bytes of each pack nothing refers to."""
    kept: Mapping[str, bytes | None] = {}
    """Rows of the table that have changed; without a value they are gone."""


def packed_bytes(places: Sequence[Place]) -> Counter[int]:
    """Give how many bytes of each pack are in some places."""
    found: Counter[int] = Counter()
    for place in places:
        for slot in place.slots if isinstance(place, Packed) else ():
            found[slot.pack] += slot.size
    return found
