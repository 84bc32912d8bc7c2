"""The reserve: room on the disk that is kept for changes that free more of it.

A deletion must be recorded and checkpointed before it frees anything, which a full disk has no room for.
So a file of the data folder holds some. When the disk is full the file is removed, and only deletions,
expiry and retention are accepted; when there is room again it is written again, and everything is.
"""

import os
from collections.abc import Callable

from millstream.store.log.disk import Disk, nonfatal_when_full

NAME = "reserve"
SLACK_BYTES = 2**20
"""How much more must fit before a full disk counts as having room again."""
_PIECE_BYTES = 2**20


class Reserve:
    """The file; a size of 0 keeps no room. `slack` is what others need beside it."""

    def __init__(
        self,
        disk: Disk,
        size: int,
        slack: int = SLACK_BYTES,
        new_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._disk = disk
        self._size = size
        self._slack = slack
        self._new_bytes = new_bytes

    def keep(self) -> None:
        """Make sure that the reserve is there, as far as there is room for it; a start calls this."""
        if not self._size:
            self._disk.remove(NAME)
            return
        with nonfatal_when_full():
            self._write(slack=0)

    def refill(self) -> None:
        """Write the reserve, or fail as a write does when there is no room for it and some more."""
        self._write(self._slack)

    def _write(self, slack: int) -> None:
        file = self._disk.open(NAME, create=True)
        try:
            held = file.size()
            # At most half of the room that there is: on a small disk, others need some, too.
            size = min(self._size, max(held, (held + self._disk.free_bytes()) // 2))
            end = size + slack
            if held == end:
                return
            for position in range(held, end, _PIECE_BYTES):
                # Random, so that no file system stores it in less room than it will free.
                file.write([self._new_bytes(min(_PIECE_BYTES, end - position))], position)
            file.truncate(size)
            file.sync()
        except OSError:
            file.truncate(0)
            raise
        finally:
            file.close()

    def release(self) -> bool:
        """Free the room of the reserve; False when it held none."""
        file = self._disk.open(NAME, create=True)
        try:
            held = file.size() > 0
            file.truncate(0)
            file.sync()
        finally:
            file.close()
        return held

    def has_room(self) -> bool:
        """Tell whether a refill may succeed, without trying one: that could take what a deletion needs."""
        return self._disk.free_bytes() >= 2 * self._slack
