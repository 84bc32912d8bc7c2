"""Removing files that nobody needs any more; called off the event loop."""

from collections.abc import Iterable
from pathlib import PurePath

from millstream.store.log.disk import Disk
from millstream.store.log.failpoints import reach


def remove_files(disk: Disk, names: Iterable[str], *, sync: bool = False) -> None:
    """Remove files, where they are there; `sync` makes sure that they do not come back."""
    folders = set()
    for name in names:
        disk.remove(name)
        folders.add(str(PurePath(name).parent))
    if sync and folders:
        reach("checkpoint.trimmed")
        for folder in sorted(folders):
            disk.sync_folder(folder)
