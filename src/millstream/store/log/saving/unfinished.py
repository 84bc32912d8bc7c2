"""Files that nothing refers to, because the checkpoint that wrote them did not finish.

A checkpoint that crashes or fails may have begun files for a stream: its first ones, or those of the next
edition. The next one that saves the stream writes them once more. But how long they are may have changed
meanwhile, by a PATCH, and then they have other names. So that one looks at what is there under the stream's
number, and removes what neither the catalog nor the new state knows.

That is before the catalog is committed: later, a crash would leave nothing that remembers to look.
"""

import contextlib
from collections import defaultdict
from collections.abc import Mapping

from millstream.store.log.disk import Disk
from millstream.store.log.files.layout import folder_of


def remove_unfinished(disk: Disk, needed: Mapping[int, set[str]]) -> set[str]:
    """Remove files of streams that are not needed; gives the folders from which some are gone."""
    by_folder: defaultdict[str, list[int]] = defaultdict(list)
    for id in needed:
        by_folder[folder_of(id)].append(id)
    changed: set[str] = set()
    for folder, ids in by_folder.items():
        of_stream = {f"{id:016x}": needed[id] for id in ids}
        for name in disk.names(folder):
            path = f"{folder}/{name}"
            if path not in of_stream.get(name[:16], (path,)):
                with contextlib.suppress(OSError):  # then it only takes room
                    disk.remove(path)
                    changed.add(folder)
    return changed
