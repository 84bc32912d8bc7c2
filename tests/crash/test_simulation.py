"""The simulation finds nothing wrong with the engine, and finds what is wrong with broken ones."""

import os

import msgspec
import pytest

from crash.simulated_disk import SimulatedDisk
from crash.simulated_engine import SimulatedCommitter, Variant, WatchedStore
from crash.simulation import Simulation, first_violation
from millstream.protocol.parts import Commit
from millstream.protocol.retention import Trim
from millstream.protocol.streams import Append, Create
from millstream.store.base import Appended, Created
from millstream.store.base import Committed as PartsCommitted
from millstream.store.log.catalog import Catalog
from millstream.store.log.disk import Disk
from millstream.store.log.files.checkpoint import Checkpoint
from millstream.store.log.files.content import Extent
from millstream.store.log.files.removal import remove_files
from millstream.store.log.files.staged import part_name
from millstream.store.log.stream_cache import Residents, content_of
from millstream.store.log.wal import format
from millstream.store.log.wal.commit import Committed, Outcome
from millstream.store.log.wal.segments import Log
from millstream.store.pending import Eventually
from millstream.store.table import Kept

SEEDS = int(os.environ.get("MILLSTREAM_SIMULATION_SEEDS", "200"))


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_no_promise_is_broken(first: int) -> None:
    for seed in range(first, first + 50):
        try:
            Simulation(seed).run()
        except BaseException as error:
            error.add_note(f"Replay it with: python -m tests.crash.simulation --seed {seed}")
            raise


def test_a_seed_replays_exactly() -> None:
    def trace() -> list[object]:
        simulation = Simulation(11)
        simulation.run()
        world, told_lsn = simulation.world, simulation.expected.told_lsn
        return [world.disk.steps, world.now_ms, told_lsn, world.disk.snapshot()]

    assert trace() == trace()


# -- Engines that are wrong in one place each ----------------------------------------------------------


class ForgetfulLog(Log):
    """Writes, and does not sync."""

    def write(self, records: list[bytes]) -> None:
        if self._position >= self._segment_bytes:
            self._begin_segment()
        assert self._file is not None
        frame = format.encode_frame(self._segments[-1].salt, self.next_lsn, records)
        self._file.write(frame, self._position)
        self._position += sum(map(len, frame))
        self.next_lsn += len(records)


class SkipsTheLogsSync(Variant):
    log = ForgetfulLog


class HastyCommitter(SimulatedCommitter):
    def write(self, batch: list[bytes]) -> Outcome:
        self.report(Committed(self.log.next_lsn + len(batch) - 1))
        return super().write(batch)


class AnswersBeforeTheSync(Variant):
    committer = HastyCommitter


class UsesSegmentsAgainWithoutSalt(Variant):
    salted = False


class ForgetfulStore(WatchedStore):
    def _commit_append(self, kept: Kept, plan: Append, now_ms: int) -> Eventually[Appended]:
        forgetful = Append(plan.data, plan.tail, plan.closes, None, plan.seq)
        return super()._commit_append(kept, forgetful, now_ms)


class ForgetsProducers(Variant):
    store = ForgetfulStore


class HastyStore(WatchedStore):
    def checkpoint(self) -> None:
        checkpoint = self._take_pictures()
        self._checkpoints.begin(checkpoint, self._now_ms)
        self._write_checkpoint(checkpoint, None)


class CheckpointsWhatIsNotDurable(Variant):
    store = HastyStore


class FolderlessDisk(SimulatedDisk):
    def sync_folder(self, name: str) -> None:
        self.step("sync_folder")


class SkipsTheSyncOfFolders(Variant):
    disk = FolderlessDisk


class TrustingLog(Log):
    """Believes what it reads: opens its end without writing the last frame again."""

    def open_end(self) -> None:
        self._disk.remove("wal/spare.tmp")
        self._spare = False
        if not self._segments:
            self._begin_segment()
            return
        self._file = self._disk.open(self._segments[-1].name)
        self._position = self._segments[-1].end
        self._file.truncate(self._position)


class TrustsThePageCache(Variant):
    log = TrustingLog


class GreedyLog(Log):
    """Lets go of one segment too many."""

    def release(self, applied_lsn: int) -> None:
        super().release(applied_lsn + 5)


class ReleasesTooMuch(Variant):
    log = GreedyLog


class ResurrectingStore(WatchedStore):
    """Answers a deletion before it is in the log."""

    def _durable(self, lsn: int) -> None:
        super()._durable(lsn)
        for entry in list(self._waiting):
            if type(entry.decision).__name__ == "Delete":
                self._waiting.remove(entry)
                entry.pending.settle(entry.decision)


class AnswersDeletesEarly(Variant):
    store = ResurrectingStore


class EagerCheckpoint(Checkpoint):
    """Removes the files of former parts before the catalog has forgotten them."""

    def write(self, disk: Disk, catalog: Catalog) -> None:
        self.clean(disk)
        super().write(disk, catalog)


class EagerStore(WatchedStore):
    def _take_pictures(self) -> Checkpoint:
        return EagerCheckpoint(*msgspec.structs.astuple(super()._take_pictures()))


class RemovesPartsTooEarly(Variant):
    store = EagerStore


class UnsyncedCheckpoint(Checkpoint):
    """Writes parts, and does not sync them."""

    def write(self, disk: Disk, catalog: Catalog) -> None:
        for part, data in [part for picture in self.pictures for part in picture.parts]:
            file = disk.open(part_name(part), create=True)
            file.write([data], 0)
            file.close()
        pictures = [msgspec.structs.replace(picture, parts=[]) for picture in self.pictures]
        Checkpoint(self.lsn, self.next_id, pictures, self.gone, self.trimmed, self.released).write(
            disk, catalog
        )


class UnsyncedStore(WatchedStore):
    def _take_pictures(self) -> Checkpoint:
        return UnsyncedCheckpoint(*msgspec.structs.astuple(super()._take_pictures()))


class SkipsTheSyncOfParts(Variant):
    store = UnsyncedStore


class StubbornStore(WatchedStore):
    """Goes back to what is durable, but not with the parts that were to go."""

    def _adopt(self, residents: Residents) -> None:
        residents.released |= self._residents.released
        super()._adopt(residents)


class RemovesPartsThatWereNotCommitted(Variant):
    store = StubbornStore


class ForgetfulCommitStore(WatchedStore):
    """Logs a commit of parts without its producer."""

    def _commit_parts(self, kept: Kept, plan: Commit, now_ms: int) -> Eventually[PartsCommitted]:
        append = msgspec.structs.replace(plan.append, stamp=None)
        return super()._commit_parts(kept, Commit(append, plan.ids, plan.size), now_ms)


class ForgetsProducersOfCommits(Variant):
    store = ForgetfulCommitStore


class LeakyStore(WatchedStore):
    """Never lets the files of parts go."""

    def _release_parts(self, kept: Kept, numbers: list[int]) -> None:
        pass


class KeepsFilesOfParts(Variant):
    store = LeakyStore


class ShowingStore(WatchedStore):
    """Lets readers know of a later start before it is in the log."""

    def _commit_trim(self, kept: Kept, change: Trim) -> None:
        super()._commit_trim(kept, change)
        kept.start = change.start


class ShowsTrimsEarly(Variant):
    store = ShowingStore


class RemovingStore(WatchedStore):
    """Removes files before it is durable that nobody needs them."""

    def _commit_trim(self, kept: Kept, change: Trim) -> None:
        super()._commit_trim(kept, change)
        content = content_of(kept)
        extent = Extent.of(kept.stream)
        remove_files(self._disk, content.removable(extent, content.end))


class RemovesTooEarly(Variant):
    store = RemovingStore


class SelfishStore(WatchedStore):
    """Lets go of what forks still read."""

    def _commit_create(self, kept: Kept, plan: Create) -> Eventually[Created]:
        if kept.source is not None:
            kept.source.stream.shared = None
        return super()._commit_create(kept, plan)


class TrimsWhatForksNeed(Variant):
    store = SelfishStore


class HoardingStore(WatchedStore):
    """Gives no room back."""

    def _take_pictures(self) -> Checkpoint:
        return msgspec.structs.replace(super()._take_pictures(), trimmed=[])


class KeepsFilesOfWhatIsGone(Variant):
    store = HoardingStore


class SloppyStore(WatchedStore):
    """Writes down where a stream begins, but not with which append."""

    def _commit_trim(self, kept: Kept, change: Trim) -> None:
        super()._commit_trim(kept, Trim(change.start, change.first_append + 1))


class MiscountsAppends(Variant):
    store = SloppyStore


@pytest.mark.parametrize(
    "variant",
    [
        SkipsTheLogsSync,
        AnswersBeforeTheSync,
        UsesSegmentsAgainWithoutSalt,
        ForgetsProducers,
        CheckpointsWhatIsNotDurable,
        SkipsTheSyncOfFolders,
        TrustsThePageCache,
        ReleasesTooMuch,
        AnswersDeletesEarly,
        RemovesPartsTooEarly,
        SkipsTheSyncOfParts,
        RemovesPartsThatWereNotCommitted,
        ForgetsProducersOfCommits,
        KeepsFilesOfParts,
        ShowsTrimsEarly,
        RemovesTooEarly,
        TrimsWhatForksNeed,
        KeepsFilesOfWhatIsGone,
        MiscountsAppends,
    ],
)
def test_a_broken_engine_is_caught(variant: type[Variant]) -> None:
    caught = first_violation(variant, range(600))
    assert caught is not None, "600 seeds went by without anybody noticing"
    print(f"seed {caught[0]}: {caught[1]}")
