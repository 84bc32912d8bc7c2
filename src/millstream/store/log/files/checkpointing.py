"""Checkpointing: when a checkpoint is due, and its way from the pictures to the last file removed.

        due --> pictures taken --the log is durable up to them--> writing --> written --> cleaned
                      |                                              |
                      +-- refused: what they show did not happen,    +-- failed: what they show is dirty
                          and nothing was written                        again, if that may pass

One is due after a time, and as soon as memory holds a certain amount that the files lack. When as much
again comes while it is being written, those who write wait for it: so twice that amount is the most,
as long as they can be written and nobody copies the files, for which checkpoints wait.

One at a time, and with the guard from the pictures to the end of writing. The engine decides when the
log is durable, and what a failure means for it; `checkpoint` says what is on the disk at each step.
"""

import logging
import time
from collections.abc import Callable

from millstream.store.log.catalog import Catalog
from millstream.store.log.files.checkpoint import Checkpoint, may_pass
from millstream.store.log.files.content import StreamFiles
from millstream.store.log.files.staged import part_name
from millstream.store.log.intervals import elapsed
from millstream.store.log.runtime import Runtime
from millstream.store.log.stream_cache import Residents, content_of
from millstream.store.measures import Measures

_DUE_STREAMS = 5_000
_DUE_AGE_MS = 5_000

_log = logging.getLogger("millstream")


class Checkpoints:
    """Checkpoints, one at a time, beside what else goes on."""

    def __init__(
        self, catalog: Catalog, files: StreamFiles, runtime: Runtime, measures: Measures, due_bytes: int
    ) -> None:
        self._catalog = catalog
        self._files = files
        self._runtime = runtime
        self._measures = measures
        self._due_bytes = due_bytes
        self._begun_ms = 0
        self.under_way = False  # from the pictures on
        self.writing = False  # when the log was durable up to them
        self.in_picture: set[int] = set()

    def is_due(self, residents: Residents, now_ms: int) -> bool:
        """Tell whether it is time for one."""
        if self.under_way or not residents.has_changed:
            return False
        return (
            self.is_full(residents)
            or len(residents.dirty) >= _DUE_STREAMS
            or elapsed(self._begun_ms, now_ms, _DUE_AGE_MS)
        )

    def is_full(self, residents: Residents) -> bool:
        """Tell whether one should begin at once, for what there is to write."""
        return not self.under_way and residents.changed_bytes >= self._due_bytes

    def is_behind(self, residents: Residents) -> bool:
        """Tell whether as much has come since the one that is being written as makes another due."""
        return self.writing and residents.changed_bytes >= self._due_bytes

    def begin(self, checkpoint: Checkpoint, now_ms: int) -> None:
        """Take in the pictures; they are written, or dropped, when the log tells."""
        self.under_way = True
        self.in_picture = {picture.stream.id for picture in checkpoint.pictures}
        self._begun_ms = now_ms

    def drop(self) -> None:
        """Give up what was not written: it shows what did not happen."""
        self._end()

    def write(
        self, checkpoint: Checkpoint, residents: Residents, done: Callable[[BaseException | None], None]
    ) -> None:
        """Write in the background, now that the log is durable up to the pictures."""
        self.writing = True
        for picture in checkpoint.pictures:
            content_of(picture.kept).narrow(picture.extent)

        def job() -> None:
            began_s = time.monotonic()
            checkpoint.write(self._files.disk, self._catalog)
            self._measures.checkpoint_s.observe(time.monotonic() - began_s)

        def finish(error: BaseException | None) -> None:
            self._files.let_go(checkpoint.trimmed)
            self._end()
            if error is None:
                self._forget_saved(checkpoint, residents)
                self._clean_after(checkpoint, residents)
            elif may_pass(error):
                _log.error("a checkpoint failed and will be tried again: %s", error)
                _make_dirty_again(checkpoint, residents)
            done(error)

        self._runtime.begin_job(job, finish)

    def _end(self) -> None:
        self.under_way = self.writing = False
        self.in_picture = set()
        self._runtime.give_guard_back()

    def _forget_saved(self, checkpoint: Checkpoint, residents: Residents) -> None:
        """Drop from memory what the files and the catalog now hold."""
        for picture in checkpoint.pictures:
            stream = picture.kept.stream
            if residents.by_id.get(stream.id) is picture.kept:
                picture.forget_saved(self._files)
                residents.unsaved_names.discard(stream.name)
        for id in checkpoint.gone:
            residents.lost.pop(id, None)

    def _clean_after(self, checkpoint: Checkpoint, residents: Residents) -> None:
        """Remove the files of former parts; what cannot be removed is found again at the next start."""
        if not checkpoint.released:
            return
        residents.released.difference_update(checkpoint.released)
        self._files.let_go(part_name(part) for part in checkpoint.released)

        def done(error: BaseException | None) -> None:
            if error is not None:
                _log.error("files of former parts could not be removed: %s", error)

        self._runtime.begin_job(lambda: checkpoint.clean(self._files.disk), done)


def _make_dirty_again(checkpoint: Checkpoint, residents: Residents) -> None:
    for picture in checkpoint.pictures:
        id = picture.stream.id
        if residents.by_id.get(id) is picture.kept:
            residents.dirty[id] = picture.kept
