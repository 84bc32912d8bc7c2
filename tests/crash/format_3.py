"""Makes a folder look as format 3 had it: a file and an index for each stream, and no checksums."""

import contextlib
import sqlite3
from array import array
from collections.abc import Iterator
from pathlib import Path

from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.pages import SUMS
from millstream.store.log.disk import RealDisk
from millstream.store.log.files.content import StreamContent
from millstream.store.log.files.extents import Extent
from millstream.store.log.files.layout import former_layout, spans
from millstream.store.log.files.open_files import StreamFiles

_SCHEMA = """
drop view facts;
drop index streams_of_format_3;
alter table streams drop column place;
alter table streams drop column sum;
alter table producers drop column sum;
alter table held drop column sum;
alter table numbers drop column sum;
drop table packs;
drop table kept;
create view facts as select name, value from "this folder was written by a newer version of millstream";
pragma user_version = 3;
"""


@contextlib.contextmanager
def tampered(folder: Path) -> Iterator[sqlite3.Connection]:
    """Change a catalog without its checksums being there to tell."""
    with sqlite3.connect(folder / "catalog.db") as connection:
        yield connection
    connection.close()
    (folder / SUMS).unlink(missing_ok=True)


def make_former(folder: Path) -> None:
    """Rewrite a folder that was closed."""
    catalog, files = Catalog(folder / "catalog.db"), StreamFiles(RealDisk(folder))
    for row in list(catalog.rows()):
        stream = row.stream()
        content = StreamContent.of(files, stream, row.flushed, row.appends, row.where())
        extent, layout = Extent.of(stream), former_layout(stream.retention)
        size = layout.chunk_bytes
        (folder / layout.content_name(stream.id)).parent.mkdir(parents=True, exist_ok=True)
        written: set[int] = set()
        for start, end in extent.kept(row.flushed):
            for chunk, _, _ in spans(max(start - stream.base, 0), end - stream.base, size):
                if chunk not in written:
                    written.add(chunk)
                    first = stream.base + chunk * size
                    data = content.fetch(first, min(first + size, row.flushed))
                    (folder / layout.content_name(stream.id, chunk)).write_bytes(data)
        ends, position = array("Q"), max(stream.base, extent.lowest)
        while position < row.flushed:
            position = content.bounds(position)[1]
            ends.append(position)
        for chunk, inside, inside_end in spans(extent.first_entry, row.appends, layout.chunk_entries):
            path = folder / layout.former_index_name(stream.id, chunk)
            first = chunk * layout.chunk_entries + inside - extent.first_entry
            path.write_bytes(bytes(8 * inside) + ends[first : first + inside_end - inside].tobytes())
    files.close()
    catalog.close()
    with tampered(folder) as connection:
        connection.executescript(_SCHEMA)
    for path in [*folder.glob("packs/*"), *folder.glob("streams/*/*.sum"), *folder.glob("streams/*/*.index")]:
        path.unlink()
