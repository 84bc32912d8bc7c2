"""Files that a checkpoint removes do not come back after a power cut: the catalog has forgotten them."""

import random

import pytest

from crash.simulated_disk import SimulatedDisk
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.files import writing
from millstream.store.log.saving.snapshots import Checkpoint

NAMES = [f"streams/{number:02x}/{number:016x}.bin" for number in range(8)]


@pytest.mark.parametrize("sync_each", [0, 100])
@pytest.mark.parametrize("kind", ["of a deleted stream", "of a former edition"])
def test_what_is_removed_stays_removed(monkeypatch: pytest.MonkeyPatch, kind: str, sync_each: int) -> None:
    monkeypatch.setattr(writing, "_SYNC_EACH", sync_each)
    for seed in range(20):
        disk = SimulatedDisk(random.Random(seed))
        for name in NAMES:
            disk.open(name, create=True).write([b"content"], 0)
        disk.sync_all()
        removed = {7: NAMES} if kind == "of a deleted stream" else {}
        checkpoint = Checkpoint(1, 9, [], removed, [] if removed else NAMES, [], 0, {})
        checkpoint.write(disk, Catalog(":memory:"))
        disk.power_cut()
        assert not disk.snapshot()


def test_a_folder_that_was_never_made_holds_nothing_up() -> None:
    """A stream may be deleted before anything of it was written."""

    class NoFolders(SimulatedDisk):
        def sync_folder(self, name: str) -> None:
            raise FileNotFoundError(name)

    checkpoint = Checkpoint(1, 9, [], {7: NAMES}, [], [], 0, {})
    assert checkpoint.write(NoFolders(random.Random(1)), Catalog(":memory:")).not_removed == {}
