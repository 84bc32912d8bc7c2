"""After a clean end the disk holds what is needed, and nothing else."""

from millstream.protocol.retention import needed
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.files import staged
from millstream.store.log.files.extents import Extent
from millstream.store.log.files.places import Filed

from .simulated_world import World


def check_part_files(world: World) -> None:
    """There is a file for each part, and no other."""
    if world.engine.journal.refusal is not None:
        return
    in_memory = world.engine.streams.by_id
    wanted = {(id, number) for id, entry in in_memory.items() for number in entry.staged}
    world.check(set(staged.find_parts(world.disk)) == wanted, "there are files of parts that are none")


def check_room(world: World, catalog: Catalog) -> None:
    """Streams that are there have no file of which nothing is left."""
    if world.engine.journal.refusal is not None:
        return
    rows = {row.stream_id: row for row in catalog.rows()}
    for path in world.disk.snapshot():
        folder, _, name = path.rpartition("/")
        if not folder.startswith("streams/") or int(name[:16], 16) not in rows:
            continue
        row = rows[int(name[:16], 16)]
        stream = row.stream()
        place = row.where()
        if not isinstance(place, Filed):
            continue
        size = place.layout.chunk_bytes
        number = int(name.split(".")[1]) if name.count(".") == 2 else 0
        edition = int(name[17:].split(".")[0]) if name[16] == "-" else 0
        extent = Extent.of(stream)
        if edition != place.layout.edition:
            wanted = edition > place.layout.edition  # a crash may leave one that was begun
        elif name.endswith((".index", ".times")):
            wanted = number >= extent.first_entry // place.layout.chunk_entries
        else:
            first = stream.base + number * size
            ranges = [(stream.start, stream.start + 1), *needed(stream.start, stream.tail, stream.shared)]
            wanted = any(first < end and start < first + size for start, end in ranges)
        wanted |= _first_file_of_a_fork(stream.start, stream.base, number)
        world.check(wanted, f"{path}: is left of {stream.name}, from {stream.start} to {stream.tail}")


def _first_file_of_a_fork(start: int, base: int, number: int) -> bool:
    return number == 0 and start <= base
