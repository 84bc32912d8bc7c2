"""Reclaiming: when little of a pack is still needed, that is copied to the last pack, and the file removed.

What streams lost by being deleted, rewritten or given files of their own stays in the packs as bytes that
nothing refers to. The catalog counts them. A pack of which a quarter is such is read from its beginning, some
of it about once a second, while no checkpoint is under way:

        slot      what the catalog says of its stream            so it is
        1         not there, or not in this slot                 left behind
        2         this slot                                      copied, and the catalog changed
        ...
        the end   everything was left behind or copied           no longer a pack; its file can be removed

The catalog is asked for every slot, so the counts only decide where to look. A copy is durable before the
catalog refers to it, and the file is removed after streams in memory refer to it no more; a start removes
files that are no packs. A crash in between leaves what it was.

A slot that is needed and damaged stays where it is, and the pack with it.

Steps are not part of checkpoints: one that was taken for them would save every stream that has changed within
a second, and those are the same streams again a second later.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator

import msgspec

from millstream.store.log.cache.stream_cache import StreamCache, content_of
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.rows import PackRow, Row
from millstream.store.log.disk import Disk
from millstream.store.log.failpoints import reach
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.packs import (
    FOLDER,
    HEADER_BYTES,
    decode_slot,
    pack_name,
    pack_number,
    read_head,
)
from millstream.store.log.files.places import Packed, Slot
from millstream.store.log.files.writing import PackEnds, Writing
from millstream.store.log.intervals import elapsed
from millstream.store.log.pace import Rest, no_rest
from millstream.store.log.runtime import Runtime
from millstream.store.log.saving.checkpoint import may_retry

_STEP_INTERVAL_MS = 1_000
_STEP_BYTES = 8 * 2**20
"""How much of a pack is read in one step."""
_STEP_SLOTS = 2_000
"""How many slots are copied in one step; the event loop takes note of each."""
_WORTH = 4  # a pack of which one in so many bytes is not needed

_log = logging.getLogger("millstream")


class Reclaimed(msgspec.Struct, frozen=True):
    """What one step did."""

    moved: dict[int, dict[Slot, Slot]]
    """By stream, the slots that were copied, and to where."""
    emptied: int | None = None
    """A pack that nothing refers to any more."""


NOTHING = Reclaimed({})


class _Found(msgspec.Struct, frozen=True):
    """A slot that is needed."""

    slot: Slot
    row: Row
    data: bytes


class Reclaiming:
    """When steps are taken, and what comes after each of them on the event loop."""

    def __init__(self, catalog: Catalog, files: StreamFiles, runtime: Runtime) -> None:
        self._catalog = catalog
        self._files = files
        self._runtime = runtime
        self._emptying = Emptying()
        self._has_work = False
        self._stepped_ms = 0
        self.is_running = False
        """Whether a step is under way; no checkpoint may begin then."""

    def look(self) -> None:
        """Find out whether there is anything to reclaim; nobody may write to the catalog meanwhile."""
        # Of a damaged catalog nothing is reclaimed, and what it says of packs may be anything.
        self._has_work = not self._catalog.damage and self._emptying.has_work(self._catalog)

    def is_due(self, now_ms: int) -> bool:
        """Tell whether it is time for a step."""
        return self._has_work and not self.is_running and elapsed(self._stepped_ms, now_ms, _STEP_INTERVAL_MS)

    def step(self, now_ms: int, cache: StreamCache, then: Callable[[BaseException | None], None]) -> None:
        """Take a step in the background; `then` gets an error after which the disk is not to be trusted.

        The caller has the guard; it is released at the end.
        """
        self._stepped_ms = now_ms
        self.is_running = True
        done: list[Reclaimed] = []

        def job() -> None:
            done.append(self._emptying.step(self._files.disk, self._catalog, self._runtime.rest()))
            self.look()

        def on_moved(error: BaseException | None) -> None:
            if error is None:
                self._runtime.begin_work(_move(done[0], cache), remove)
                return
            self._has_work = False  # until a checkpoint has changed something
            if isinstance(error, OSError | sqlite3.Error) and may_retry(error):
                _log.warning("a pack could not be emptied, and will be later: %s", error)
                end(None)
            else:
                end(error)

        def remove() -> None:
            if done[0].emptied is None:
                end(None)
                return
            name = pack_name(done[0].emptied)
            self._files.close_some([name])
            self._runtime.begin_job(lambda: _remove(self._files.disk, name), on_removed)

        def on_removed(error: BaseException | None) -> None:
            if error is not None:
                _log.error("a file that is not needed could not be removed: %s", error)
            end(None)

        def end(error: BaseException | None) -> None:
            self.is_running = False
            self._runtime.release_guard()
            then(error)

        self._runtime.begin_job(job, on_moved)


def _move(reclaimed: Reclaimed, cache: StreamCache) -> Iterator[None]:
    """Let streams in memory use the slots that theirs were copied to, one in each step."""
    for id, moved in reclaimed.moved.items():
        entry = cache.by_id.get(id)
        if entry is not None:
            content_of(entry).move(moved)
        yield


def _remove(disk: Disk, name: str) -> None:
    disk.remove(name)
    reach("reclaiming.removed")


class Emptying:
    """The pack that is being emptied, and how far."""

    def __init__(self) -> None:
        self._pack = 0
        self._position = 0
        self._damaged: set[int] = set()

    def has_work(self, catalog: Catalog) -> bool:
        """Tell whether there is a pack that is worth it."""
        return self._choose(catalog.packs()) is not None

    def step(self, disk: Disk, catalog: Catalog, rest: Rest = no_rest) -> Reclaimed:
        """Copy what is needed of the next part of a pack; called off the event loop."""
        packs = catalog.packs()
        pack = self._choose(packs)
        if pack is None:
            return NOTHING
        if pack.number != self._pack:
            self._pack, self._position = pack.number, 0
        found, position = self._find(disk, catalog, pack, rest)
        if position is None:
            self._damaged.add(pack.number)
            return NOTHING
        writing = Writing(disk, PackEnds.at(packs[-1].number, packs[-1].end))
        copies = [writing.add_slot(one.data) for one in found]
        if copies:
            writing.write_slots()
            writing.sync()
        reach("reclaiming.copied")
        moved: dict[int, dict[Slot, Slot]] = {}
        rows: dict[int, Row] = {}
        for one, copy in zip(found, copies, strict=True):
            id = one.row.stream_id
            moved.setdefault(id, {})[one.slot] = copy
            row = rows.get(id, one.row)
            place = row.where()
            assert isinstance(place, Packed)  # it has a slot
            rows[id] = row.moved(Packed(tuple(copy if slot == one.slot else slot for slot in place.slots)))
        is_done = position >= pack.end
        catalog.move(list(rows.values()), writing.packs.written, pack.number if is_done else None)
        reach("reclaiming.moved")
        self._position = position
        return Reclaimed(moved, pack.number if is_done else None)

    def _choose(self, packs: list[PackRow]) -> PackRow | None:
        """Choose the pack that is being emptied, or the one with the most to gain; never the last one."""
        worth = [
            pack
            for pack in packs[:-1]
            if pack.number not in self._damaged
            and (pack.number == self._pack or pack.freed * _WORTH >= pack.end)
        ]
        return max(worth, key=lambda pack: (pack.number == self._pack, pack.freed), default=None)

    def _find(
        self, disk: Disk, catalog: Catalog, pack: PackRow, rest: Rest
    ) -> tuple[list[_Found], int | None]:
        """Find what is needed in the next part of a pack, and where that ends; None when it is damaged."""
        name = pack_name(pack.number)
        file = disk.open(name)
        try:
            window = file.read(min(_STEP_BYTES, pack.end - self._position), self._position)
        finally:
            file.close()
        found: list[_Found] = []
        inside = 0
        while inside < len(window) and len(found) < _STEP_SLOTS:
            rest()
            head = read_head(window, inside)
            is_last = self._position + len(window) >= pack.end
            if head is None and not is_last and len(window) - inside < HEADER_BYTES and inside:
                break  # it goes on in the next part
            if head is None or self._position + inside + head.size > pack.end:
                _log.error("%s: the slot at byte %d is damaged", name, self._position + inside)
                return [], None
            if inside + head.size > len(window):
                break
            slot = Slot(pack.number, self._position + inside, head.size)
            row = catalog.written_row(head.stream_id)
            if row is not None and isinstance(place := row.where(), Packed) and slot in place.slots:
                data = window[inside : inside + head.size]
                if decode_slot(data, row.stream().created_ms) is None:
                    _log.error("%s: the slot at byte %d is damaged", name, slot.position)
                    return [], None
                found.append(_Found(slot, row, data))
            inside += head.size
        return found, self._position + inside


def remove_unknown(disk: Disk, catalog: Catalog) -> None:
    """Remove the files of packs that are none, which a crash has left; called when a store is opened."""
    known = {pack.number for pack in catalog.packs()}
    for name in disk.names(FOLDER):
        number = pack_number(name)
        if number is not None and number not in known:
            disk.remove(pack_name(number))
