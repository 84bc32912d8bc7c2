"""Checking a stream's files: are they all there, and does the index fit?"""

from array import array
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from millstream.protocol.retention import needed
from millstream.protocol.streams import Stream
from millstream.store.log.catalog import Row
from millstream.store.log.files.content import Extent
from millstream.store.log.files.layout import (
    ENTRY_BYTES,
    chunk_bytes,
    chunk_entries,
    content_name,
    index_name,
    spans,
)


def check_files(folder: Path, row: Row, stream: Stream) -> Iterator[str]:
    """Compare the files of a stream with what the catalog says of them, and the log of its beginning."""
    extent, base, size = Extent.of(stream), stream.base, chunk_bytes(stream.retention)
    for start, end in needed(max(extent.start, base), row.flushed, extent.shared):
        for chunk, _, inside_end in spans(max(start, base) - base, end - base, size):
            yield from _check_size(folder, content_name(stream.id, chunk), inside_end, row)
    ends, entries = array("Q"), chunk_entries(size)
    for chunk, inside, inside_end in spans(extent.first_entry, row.appends, entries):
        name = index_name(stream.id, chunk)
        if complaints := list(_check_size(folder, name, inside_end * ENTRY_BYTES, row)):
            yield from complaints
            return
        ends.frombytes((folder / name).read_bytes()[inside * ENTRY_BYTES : inside_end * ENTRY_BYTES])
    begins = max(base, extent.lowest)
    if ends and (ends[-1] != row.flushed or any(end <= start for start, end in pairwise([begins, *ends]))):
        yield f"{index_name(stream.id)}: is not the index of {row.name}."


def _check_size(folder: Path, name: str, size: int, row: Row) -> Iterator[str]:
    path = folder / name
    found = path.stat().st_size if path.exists() else 0
    if found < size:
        yield f"{name}: has {found} of the {size} bytes of {row.name}."
