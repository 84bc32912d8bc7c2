"""Failpoints: named places where a test can end the process, as a crash would.

        MILLSTREAM_FAILPOINT=log.written:3      SIGKILL when `log.written` is reached for the third time

The variable is read once. When it is not set, `reach` does nothing.
"""

import os
import signal

NAMES = (
    "log.written",  # a frame is in the page cache, not on the disk
    "log.synced",  # it is on the disk, nothing was reported
    "segment.prepared",  # the header of a new segment is on the disk, its name is not
    "segment.renamed",  # the name may be or not
    "segment.begun",  # the name is on the disk
    "checkpoint.removed",  # files of the gone and the trimmed are removed, which may be on the disk or not
    "writing.filed",  # streams with files of their own have written to them, nothing is synced
    "writing.outgrown",  # a stream has files of its own now, besides its slots in packs
    "writing.rewritten",  # what is kept of a stream has files of another edition now, besides its own
    "writing.converted",  # a stream of format 3 was written anew, besides its old files
    "writing.packed",  # packs were written to, nothing is synced
    "checkpoint.written",  # stream files and parts are on the disk
    "checkpoint.trimmed",  # files of what was trimmed are removed again; the catalog is the old one
    "checkpoint.committed",  # the catalog is the new one, the log is not cut
    "reclaiming.copied",  # slots of a pack have copies in another one, the catalog does not know
    "reclaiming.moved",  # the catalog knows; streams in memory still use the former ones
    "reclaiming.removed",  # the file of a pack that was emptied is removed, which may be on the disk or not
    "checkpoint.cleaned",  # files of former parts are gone, which may be on the disk or not
    "segment.released",  # old segments have other names or none, which may be on the disk or not
    "delivery.begun",  # an attempt to deliver a webhook is on the disk, nothing is sent
    "delivery.answered",  # its receiver has answered, which is nowhere recorded
    "delivery.recorded",  # what came of it is on the disk
    "recovery.read",  # all was read, nothing written
    "recovery.rewritten",  # the last frame was written again, what is behind it is cut off, not synced
)


def _planned(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    if name not in NAMES:
        raise ValueError(f"MILLSTREAM_FAILPOINT: there is no failpoint {name!r}.")
    return name, int(count or 1)


_name, _left = (
    _planned(os.environ["MILLSTREAM_FAILPOINT"]) if "MILLSTREAM_FAILPOINT" in os.environ else ("", 0)
)


def reach(name: str) -> None:
    """End the process here, if that was planned."""
    global _left
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
