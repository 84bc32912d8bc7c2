"""The log's bytes. All integers are little-endian.

A segment begins with a header, whose salt is random and new each time the file is used again:

        +----------+----------+-----------+----------+---------+
        | magic 8  | salt 8   | first lsn | crc32c 4 | zeros 4 |      32 bytes
        +----------+----------+-----------+----------+---------+

Frames follow. A frame is one group commit: everything that became durable by one sync.

        +---------+----------+----------+---------+-----------+----------- - -+---------+
        | mark 4  | crc32c 4 | length 4 | count 4 | first lsn | records       | zeros   |
        +---------+----------+----------+---------+-----------+----------- - -+---------+
                               `-------- checked, with the salt before -----´  to 8

The mark is an F and the first three bytes of the salt. So neither what an earlier use of the file left
nor what a client put into its data looks like a frame, and a search for one is quick.

A record is one change; its number, the lsn, is the frame's first plus its place.

        +--------+---------+---------------+------------------+-------------+------+---------+
        | type 1 | zeros 3 | meta length 4 | payload length 4 | stream id 8 | meta | payload |
        +--------+---------+---------------+------------------+-------------+------+---------+

One checksum for a whole frame, because a power cut may keep the end of an unsynced write and lose its
beginning: with a checksum per record, whole records after a torn one would look like damage in the
middle of the log. A frame is written only after the one before it was synced, so a broken frame that
has a whole one behind it is damage, and one that has not is where the power went.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import google_crc32c
import msgspec

from millstream.protocol.configuration import Configuration
from millstream.protocol.producers import Stamp
from millstream.protocol.streams import Stream

SEGMENT_MAGIC: Final = b"MSTRWAL1"
SEGMENT_HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24

_SEGMENT = struct.Struct("<8sQQ")
_FRAME_CHECKED = struct.Struct("<IIQ")
_RECORD = struct.Struct("<BxxxIIQ")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_ALIGNMENT: Final = 8


class CreateMeta(msgspec.Struct, array_like=True):
    """A new stream, and how many forks its source has now."""

    stream: Stream
    source_forks: int


class AppendMeta(msgspec.Struct, array_like=True, gc=False):
    """An append: where it begins, and all that was decided with it."""

    base: int
    now_ms: int
    closes: bool = False
    stamp: Stamp | None = None
    seq: bytes | None = None
    forgets: tuple[bytes, ...] = ()
    fingerprint: str | None = None


class EndMeta(msgspec.Struct, array_like=True):
    """A deletion: what is gone for good, and how many forks the source that stays has now.

    When nothing is gone the stream is only deleted for its readers, because forks still need it.
    """

    gone: list[int]
    source_id: int
    source_forks: int


class RenewMeta(msgspec.Struct, array_like=True, gc=False):
    """A TTL that began anew."""

    deadline_ms: int


class StageMeta(msgspec.Struct, array_like=True, gc=False):
    """A part that is kept; its number is how many there were before it."""

    id: str
    now_ms: int


class CommitMeta(msgspec.Struct, array_like=True):
    """An append of parts: their bytes are in the records that staged them, or in their files."""

    append: AppendMeta
    ids: list[str]


class DropMeta(msgspec.Struct, array_like=True):
    """Parts that are gone."""

    ids: list[str]


class TrimMeta(msgspec.Struct, array_like=True, gc=False):
    """A later start: what lies before is gone, so many appends of the stream itself."""

    start: int
    first_append: int
    first_ms: int = 0


class ConfigureMeta(msgspec.Struct, array_like=True, gc=False):
    """Another configuration: all that a PATCH has decided."""

    configuration: Configuration


class RowsMeta(msgspec.Struct, array_like=True, gc=False):
    """Rows that are kept for the table, or removed where there is no value; of no stream."""

    rows: dict[str, bytes | None]


Meta = (
    CreateMeta
    | AppendMeta
    | EndMeta
    | RenewMeta
    | StageMeta
    | CommitMeta
    | DropMeta
    | TrimMeta
    | ConfigureMeta
    | RowsMeta
)

_TYPES: dict[type[Meta], int] = {
    CreateMeta: 1,
    AppendMeta: 2,
    EndMeta: 3,
    RenewMeta: 4,
    StageMeta: 16,
    CommitMeta: 17,
    DropMeta: 18,
    TrimMeta: 32,
    ConfigureMeta: 33,
    RowsMeta: 48,
}
"""The number of each kind of record on the disk; it never changes."""

NO_STREAM: Final = 0
"""The stream of a record that is about none; ids begin with 1."""

SHARED_TYPES: Final = frozenset({_TYPES[CreateMeta], _TYPES[EndMeta]})
"""The kinds of records that may change another stream than their own: the source of a fork."""

_encode_meta = msgspec.msgpack.Encoder().encode
_decoders: dict[int, msgspec.msgpack.Decoder[Meta]] = {
    number: msgspec.msgpack.Decoder(kind) for kind, number in _TYPES.items()
}


class Record(msgspec.Struct, frozen=True, gc=False):
    """A change, as it is found again in the log."""

    lsn: int
    stream_id: int
    meta: Meta
    payload: bytes


def encode_record(stream_id: int, meta: Meta, payload: bytes = b"") -> bytes:
    """Write a record; its number is given by the frame that carries it."""
    packed = _encode_meta(meta)
    return _RECORD.pack(_TYPES[type(meta)], len(packed), len(payload), stream_id) + packed + payload


def decode_record(lsn: int, data: bytes) -> Record:
    """Read one record by itself."""
    (record,) = records_of(Frame(lsn, 1, data, len(data)))
    return record


def encode_frame(salt: bytes, first_lsn: int, records: Sequence[bytes]) -> list[bytes]:
    """Write a frame of records, in pieces: they may be large, and are not copied once more."""
    body = b"".join(records)
    checked = _FRAME_CHECKED.pack(len(body), len(records), first_lsn)
    crc = google_crc32c.extend(google_crc32c.value(salt + checked), body)
    return [b"%b%b%b" % (_mark(salt), _U32.pack(crc), checked), body, bytes(-len(body) % _ALIGNMENT)]


def encode_segment_header(salt: bytes, first_lsn: int) -> bytes:
    """Write the beginning of a segment."""
    header = _SEGMENT.pack(SEGMENT_MAGIC, _U64.unpack(salt)[0], first_lsn)
    return header + _U32.pack(google_crc32c.value(header)) + bytes(4)


def decode_segment_header(data: bytes) -> tuple[bytes, int] | None:
    """Read a segment's salt and first lsn; None when it is not a whole header."""
    header, crc, zeros = data[:24], data[24:28], data[28:SEGMENT_HEADER_BYTES]
    if zeros != bytes(4) or crc != _U32.pack(google_crc32c.value(header)):
        return None
    magic, salt, first_lsn = _SEGMENT.unpack(header)
    return (_U64.pack(salt), first_lsn) if magic == SEGMENT_MAGIC else None


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A whole frame, and where the next one would begin."""

    first_lsn: int
    count: int
    body: bytes
    end: int


def decode_frame(data: bytes, position: int, salt: bytes) -> Frame | None:
    """Read the frame at a position; None when there is no whole one."""
    start = position + FRAME_HEADER_BYTES
    if data[position : position + 4] != _mark(salt) or start > len(data):
        return None
    checked = data[position + 8 : start]
    length, count, first_lsn = _FRAME_CHECKED.unpack(checked)
    padding = -length % _ALIGNMENT
    body_end = start + length
    if data[body_end : body_end + padding] != bytes(padding) or body_end > len(data):
        return None
    body = data[start:body_end]
    crc = google_crc32c.extend(google_crc32c.value(salt + checked), body)
    if data[position + 4 : position + 8] != _U32.pack(crc):
        return None
    return Frame(first_lsn, count, body, body_end + padding)


def find_frame(data: bytes, position: int, salt: bytes) -> int | None:
    """Find a whole frame at or after a position, however far."""
    while (position := data.find(_mark(salt), position)) >= 0:
        if decode_frame(data, position, salt) is not None:
            return position
        position += 1
    return None


def records_of(frame: Frame, wanted: Callable[[int, int], bool] | None = None) -> Iterator[Record]:
    """Read the records of a frame, or those of a wanted type and stream.

    A ValueError is a record that this version does not know.
    """
    body, position = frame.body, 0
    for index in range(frame.count):
        type, meta_length, payload_length, stream_id = _RECORD.unpack_from(body, position)
        meta_start = position + _RECORD.size
        payload_start = meta_start + meta_length
        position = payload_start + payload_length
        if wanted is not None and not wanted(type, stream_id):
            continue
        if type not in _decoders:
            raise ValueError(f"there is no record of type {type}")
        meta = _decoders[type].decode(body[meta_start:payload_start])
        yield Record(frame.first_lsn + index, stream_id, meta, body[payload_start:position])


def _mark(salt: bytes) -> bytes:
    return b"F" + salt[:3]
