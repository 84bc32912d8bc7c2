"""A disk in memory that forgets what was not synced, as real ones do, and worse than most.

It keeps two versions of everything: what a process sees (the page cache) and what is on the platter.
A sync moves one to the other. `power_cut` throws the first away, but not cleanly: of each sector that was
written and not synced, the platter holds the old bytes, the new ones, some of both, or rubbish; of each
name that was made, moved or removed and not synced, either the old or the new, in no order. `kill` only
loses what was open. After a failed sync the page cache calls clean what never reached the platter, so a
later sync that succeeds does not bring it there either.

One thing is kept that all disks keep: a byte that is overwritten by the same byte survives (sectors are
not ruined beyond what was written to them).

Everything is drawn from the random source that it is given: the same seed, the same disk.
"""

import errno
import os
import random
from collections.abc import Sequence
from pathlib import PurePath

from millstream.store.log.disk import SyncError

SECTOR = 512


class CrashError(BaseException):
    """The machine or the process ends here; no `except Exception` may hold it up."""


class Inode:
    """A file's bytes: as a process sees them, as they are on the platter, and which sectors differ."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self.kept = bytearray()
        self.dirty: set[int] = set()
        self.resized = False

    def write(self, data: bytes, position: int) -> None:
        end = position + len(data)
        if end > len(self.seen):
            self.resized = True
            self.dirty.update(range(len(self.seen) // SECTOR, end // SECTOR + 1))
            self.seen.extend(bytes(end - len(self.seen)))
        self.seen[position:end] = data
        self.dirty.update(range(position // SECTOR, max(position, end - 1) // SECTOR + 1))

    def truncate(self, size: int) -> None:
        if size != len(self.seen):
            self.dirty.add(min(size, len(self.seen)) // SECTOR)
            self.resized = True
            del self.seen[size:]
            self.seen.extend(bytes(size - len(self.seen)))

    def sync(self) -> None:
        if self.resized:
            _resize(self.kept, len(self.seen))
        for sector in self.dirty:
            span = slice(sector * SECTOR, min((sector + 1) * SECTOR, len(self.seen)))
            self.kept.extend(bytes(max(0, span.stop - len(self.kept))))
            self.kept[span] = self.seen[span]
        self.forget_dirty()

    def forget_dirty(self) -> None:
        self.dirty.clear()
        self.resized = False

    def tear(self, random: random.Random) -> None:
        """Let the platter have some of what was not synced."""
        if self.resized:
            low, high = sorted((len(self.kept), len(self.seen)))
            _resize(self.kept, random.choice((low, high, random.randint(low, high))))
        for sector in sorted(self.dirty):
            start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(self.kept), len(self.seen))
            if start < end:
                self.kept[start:end] = _torn(self.kept[start:end], self.seen[start:end], random)
        self.forget_dirty()
        self.seen = bytearray(self.kept)


def _torn(old: bytearray, new: bytearray, random: random.Random) -> bytearray:
    fate = random.random()
    if fate < 0.35:
        return new
    if fate < 0.65:
        return old
    cut = random.randint(0, len(old))
    if fate < 0.75:
        return new[:cut] + old[cut:]
    if fate < 0.85:
        return old[:cut] + new[cut:]
    rubbish = random.randbytes(len(old)) if fate < 0.95 else bytes(len(old))
    return bytearray(a if a == b else c for a, b, c in zip(old, new, rubbish, strict=True))


def _resize(data: bytearray, size: int) -> None:
    del data[size:]
    data.extend(bytes(size - len(data)))


class SimulatedFile:
    def __init__(self, disk: "SimulatedDisk", name: str, inode: Inode) -> None:
        self._disk = disk
        self._name = name
        self._inode = inode
        self._boot = disk.boot

    def write(self, pieces: Sequence[bytes], position: int) -> None:
        data = b"".join(pieces)
        self._disk.check_writable(self._name)
        self._disk.step("write", lambda: self._inode.write(data[: self._part(data)], position))
        if self._disk.take_fault("write"):
            self._inode.write(data[: self._part(data)], position)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        room = self._disk.room_for(self._inode, position + len(data))
        self._inode.write(data[: max(0, len(data) - room)] if room else data, position)
        if room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _part(self, data: bytes) -> int:
        return self._disk.random.randint(0, len(data))

    def read(self, size: int, position: int) -> bytes:
        assert self._boot == self._disk.boot, "a file that was opened before a crash is used after it"
        return bytes(self._inode.seen[position : position + size])

    def allocate(self, start: int, end: int) -> bool:
        return False

    def sync(self) -> None:
        self._disk.step("sync")
        if self._disk.take_fault("sync"):
            self._inode.forget_dirty()
            raise SyncError(errno.EIO, os.strerror(errno.EIO))
        self._inode.sync()

    def truncate(self, size: int) -> None:
        self._disk.step("truncate")
        self._inode.truncate(size)

    def descriptor(self) -> None:
        return None

    def size(self) -> int:
        return len(self._inode.seen)

    def close(self) -> None:
        if self._boot == self._disk.boot:
            self._disk.open_files -= 1


class SimulatedDisk:
    """What survives is decided when the crash comes."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.boot = 0
        self.open_files = 0
        self.capacity: int | None = None
        self.steps = 0
        self.crash_at: int | None = None
        self.on_step = lambda: None
        self.unwritable: set[int] = set()
        """Streams whose files can be neither written nor made."""
        self._faults: set[str] = set()
        self._seen: dict[str, Inode] = {}
        self._kept: dict[str, Inode] = {}
        self._unsynced: list[tuple[str, dict[str, Inode | None]]] = []

    # -- What happens to it ----------------------------------------------------------------------

    def power_cut(self) -> None:
        """Lose what was not synced, or some of it."""
        mercy = self.random.choice((0.0, 0.5, 0.5, 1.0))
        for _, change in self._unsynced:
            if self.random.random() < mercy:
                _change(self._kept, change)
        for name in sorted(self._kept):
            self._kept[name].tear(self.random)
        self._seen = dict(self._kept)
        self.kill()
        self._unsynced.clear()

    def kill(self) -> None:
        """End the process: what it wrote stays in the page cache, synced or not."""
        self.boot += 1
        self.open_files = 0
        self.crash_at = None
        self._faults.clear()

    def fail_next(self, operation: str) -> None:
        self._faults.add(operation)

    def take_fault(self, operation: str) -> bool:
        if operation in self._faults:
            self._faults.remove(operation)
            return True
        return False

    def step(self, operation: str, half_done: "object" = None) -> None:
        """Count an operation, and crash before it or halfway through it if that was planned."""
        self.steps += 1
        if self.crash_at is not None and self.steps >= self.crash_at:
            if callable(half_done) and self.random.random() < 0.5:
                half_done()
            raise CrashError(f"at {operation}, step {self.steps}")
        self.on_step()

    def check_writable(self, name: str) -> None:
        """Fail for the files of some streams."""
        if any(f"/{id:016x}" in name for id in self.unwritable):
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)

    def used(self) -> int:
        return sum(len(inode.seen) for inode in self._seen.values())

    def free_bytes(self) -> int:
        return 2**40 if self.capacity is None else max(0, self.capacity - self.used())

    def room_for(self, inode: Inode, end: int) -> int:
        """Tell how many bytes too many it would be for a file to end there."""
        if self.capacity is None or end <= len(inode.seen):
            return 0
        return max(0, self.used() + end - len(inode.seen) - self.capacity)

    def snapshot(self) -> dict[str, bytes]:
        """All files, as a process sees them."""
        return {name: bytes(inode.seen) for name, inode in sorted(self._seen.items())}

    # -- What the engine asks of it --------------------------------------------------------------

    def open(self, name: str, *, create: bool = False) -> SimulatedFile:
        inode = self._seen.get(name)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            self.check_writable(name)
            self.step("create")
            inode = Inode()
            self._do(name, {name: inode})
        self.open_files += 1
        return SimulatedFile(self, name, inode)

    def names(self, folder: str) -> list[str]:
        return sorted(PurePath(name).name for name in self._seen if str(PurePath(name).parent) == folder)

    def rename(self, old: str, new: str) -> None:
        self.step("rename")
        self._do(new, {old: None, new: self._seen[old]})

    def remove(self, name: str) -> None:
        self.step("remove")
        if name in self._seen:
            self._do(name, {name: None})

    def make_folder(self, name: str) -> None:
        pass

    def sync_folder(self, name: str) -> None:
        self.step("sync_folder")
        if self.take_fault("sync"):
            raise SyncError(errno.EIO, os.strerror(errno.EIO))
        for folder, change in self._unsynced:
            if folder == name:
                _change(self._kept, change)
        self._unsynced = [entry for entry in self._unsynced if entry[0] != name]

    def sync_all(self) -> bool:
        self.step("sync_all")
        if self.take_fault("sync"):
            raise SyncError(errno.EIO, os.strerror(errno.EIO))
        for inode in self._seen.values():
            inode.sync()
        for _, change in self._unsynced:
            _change(self._kept, change)
        self._unsynced.clear()
        return True

    def _do(self, name: str, change: dict[str, Inode | None]) -> None:
        _change(self._seen, change)
        self._unsynced.append((str(PurePath(name).parent), change))


def _change(names: dict[str, Inode], change: dict[str, Inode | None]) -> None:
    for name, inode in change.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
