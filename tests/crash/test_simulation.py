"""The simulation finds nothing wrong with the engine, and finds what is wrong with broken ones."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from crash.simulated_disk import SimulatedDisk
from crash.simulated_engine import (
    SimulatedCatalog,
    SimulatedCommitter,
    Variant,
    WatchedEngine,
    WatchedJournal,
)
from crash.simulated_subscribers import Subscribed
from crash.simulation import Simulation, first_violation
from millstream.protocol.configuration import Configuration, Configured
from millstream.protocol.lifecycle import Create
from millstream.protocol.parts import Commit
from millstream.protocol.retention import KEEP_ALL, Shared, Trim
from millstream.protocol.streams import Append, Unstored
from millstream.store.entries import StreamEntry
from millstream.store.log.cache.stream_cache import StreamCache, content_of, ignore_change
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.rows import Changes
from millstream.store.log.disk import Disk
from millstream.store.log.files.extents import Extent
from millstream.store.log.files.staged import part_name
from millstream.store.log.saving.snapshots import Checkpoint, Written, remove_files
from millstream.store.log.saving.taking import Taking
from millstream.store.log.wal import format
from millstream.store.log.wal.commit import Durable, Outcome
from millstream.store.log.wal.segments import Log
from millstream.store.pending import Pending

SEEDS = int(os.environ.get("MILLSTREAM_SIMULATION_SEEDS", "200"))


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_no_promise_is_broken(first: int) -> None:
    for seed in range(first, first + 50):
        try:
            Simulation(seed).run()
        except BaseException as error:
            error.add_note(f"Replay it with: python -m tests.crash.simulation --seed {seed}")
            raise


@pytest.mark.parametrize("first", range(0, SEEDS // 4, 25))
def test_no_promise_about_subscriptions_is_broken(first: int) -> None:
    """S1."""
    for seed in range(first, first + 25):
        try:
            Simulation(seed, Subscribed).run()
        except BaseException as error:
            error.add_note(f"Replay it with: python -m tests.crash.simulation --subscriptions --seed {seed}")
            raise


def test_a_seed_replays_exactly() -> None:
    def trace() -> list[object]:
        simulation = Simulation(11)
        simulation.run()
        world, seen_lsn = simulation.world, simulation.expected.seen_lsn
        return [world.disk.steps, world.now_ms, seen_lsn, world.disk.snapshot()]

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
        self.report(Durable(self.log.next_lsn + len(batch) - 1))
        return super().write(batch)


class AnswersBeforeTheSync(Variant):
    committer = HastyCommitter


class UsesSegmentsAgainWithoutSalt(Variant):
    salted = False


class ForgetfulJournal(WatchedJournal):
    def append(self, entry: StreamEntry, plan: Append, now_ms: int) -> Pending[Any]:
        forgetful = Append(plan.data, plan.tail, plan.closes, None, plan.seq)
        return super().append(entry, forgetful, now_ms)


class ForgetsProducers(Variant):
    journal = ForgetfulJournal


class HastyEngine(WatchedEngine):
    def _on_logged(self, taking: Taking, refusal: Unstored | None) -> None:
        pass

    def _write_checkpoint(self, taking: Taking) -> None:
        taking.is_logged = True
        super()._write_checkpoint(taking)


class CheckpointsWhatIsNotDurable(Variant):
    engine = HastyEngine


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
    """Releases one segment too many."""

    def release(self, applied_lsn: int) -> None:
        super().release(applied_lsn + 5)


class ReleasesTooMuch(Variant):
    log = GreedyLog


class ResurrectingJournal(WatchedJournal):
    """Answers a deletion before it is in the log."""

    def mark_durable(self, lsn: int) -> None:
        super().mark_durable(lsn)
        for entry in list(self._waiting):
            if type(entry.decision).__name__ == "Delete":
                self._waiting.remove(entry)
                entry.pending.settle(entry.decision)


class AnswersDeletesEarly(Variant):
    journal = ResurrectingJournal


class EagerCheckpoint(Checkpoint):
    """Removes the files of former parts before the catalog has forgotten them."""

    def write(self, disk: Disk, catalog: Catalog) -> Written:
        self.clean(disk, self.released_parts)
        return super().write(disk, catalog)


class EagerEngine(WatchedEngine):
    def _complete(self, taking: Taking) -> Checkpoint:
        return EagerCheckpoint(*msgspec.structs.astuple(super()._complete(taking)))


class RemovesPartsTooEarly(Variant):
    engine = EagerEngine


class UnsyncedCheckpoint(Checkpoint):
    """Writes parts, and does not sync them."""

    def write(self, disk: Disk, catalog: Catalog) -> Written:
        for part, data in [part for snapshot in self.snapshots for part in snapshot.parts]:
            file = disk.open(part_name(part), create=True)
            file.write([data], 0)
            file.close()
        snapshots = [msgspec.structs.replace(snapshot, parts=[]) for snapshot in self.snapshots]
        values = msgspec.structs.asdict(self) | {"snapshots": snapshots}
        return Checkpoint(**values).write(disk, catalog)


class UnsyncedEngine(WatchedEngine):
    def _complete(self, taking: Taking) -> Checkpoint:
        return UnsyncedCheckpoint(*msgspec.structs.astuple(super()._complete(taking)))


class SkipsTheSyncOfParts(Variant):
    engine = UnsyncedEngine


class StubbornEngine(WatchedEngine):
    """Returns to what is durable, but still removes the parts that were to go."""

    def _adopt(self, recovered: StreamCache) -> None:
        recovered.released_parts |= self.streams.released_parts
        super()._adopt(recovered)


class RemovesPartsThatWereNotCommitted(Variant):
    engine = StubbornEngine


class ForgetfulCommitJournal(WatchedJournal):
    """Logs a commit of parts without its producer."""

    def commit(self, entry: StreamEntry, plan: Commit, now_ms: int) -> Pending[Any]:
        append = msgspec.structs.replace(plan.append, stamp=None)
        return super().commit(entry, Commit(append, plan.ids, plan.size), now_ms)


class ForgetsProducersOfCommits(Variant):
    journal = ForgetfulCommitJournal


class LeakyJournal(WatchedJournal):
    """Never releases the files of parts."""

    def release_parts(self, entry: StreamEntry, numbers: list[int]) -> None:
        pass


class KeepsFilesOfParts(Variant):
    journal = LeakyJournal


class ShowingJournal(WatchedJournal):
    """Shows readers a later start before it is in the log."""

    def trim(self, entry: StreamEntry, change: Trim) -> Pending[Any]:
        pending = super().trim(entry, change)
        entry.start = change.start
        return pending


class ShowsTrimsEarly(Variant):
    journal = ShowingJournal


class RemovingJournal(WatchedJournal):
    """Removes files before the trim that makes them useless is durable."""

    def trim(self, entry: StreamEntry, change: Trim) -> Pending[Any]:
        pending = super().trim(entry, change)
        content = content_of(entry)
        extent = Extent.of(entry.stream)
        remove_files(content._files.disk, content.removable(extent, content.end))
        return pending


class RemovesTooEarly(Variant):
    journal = RemovingJournal


class SelfishJournal(WatchedJournal):
    """Trims what forks still read."""

    def create(self, entry: StreamEntry, plan: Create) -> Pending[Any]:
        if entry.source is not None:
            source = entry.source.stream
            source.shared = Shared(source.start, source.first_append, source.start)
        return super().create(entry, plan)


class TrimsWhatForksNeed(Variant):
    journal = SelfishJournal


class HoardingEngine(WatchedEngine):
    """Frees no room."""

    def _complete(self, taking: Taking) -> Checkpoint:
        taken = super()._complete(taking)
        kept = [msgspec.structs.replace(one, trimmed=[]) for one in taken.snapshots]
        return msgspec.structs.replace(taken, snapshots=kept)


class KeepsFilesOfWhatIsGone(Variant):
    engine = HoardingEngine


class SloppyJournal(WatchedJournal):
    """Records where a stream starts, but not with which append."""

    def trim(self, entry: StreamEntry, change: Trim) -> Pending[Any]:
        return super().trim(entry, Trim(change.start, change.first_append + 1, change.first_ms))


class ForgetfulJournal(WatchedJournal):
    """Records a PATCH without its limits."""

    def configure(self, entry: StreamEntry, plan: Configured, change: Configuration) -> Pending[Any]:
        return super().configure(entry, plan, msgspec.structs.replace(change, retention=KEEP_ALL))


class ForgetsLimits(Variant):
    journal = ForgetfulJournal


class MiscountsAppends(Variant):
    journal = SloppyJournal


class ForgetfulEngine(WatchedEngine):
    """Takes snapshots in steps, and lets streams change before theirs is taken."""

    def checkpoint(self) -> None:
        super().checkpoint()
        self.streams.before_change = ignore_change


class ForgetsToCopyOnWrite(Variant):
    engine = ForgetfulEngine


class ThriftyEngine(WatchedEngine):
    """Drops producers from memory before they are saved."""

    def _adopt(self, recovered: StreamCache) -> None:
        super()._adopt(recovered)
        vars(recovered)["_has_producers_saved"] = lambda id, is_in_checkpoint: True


class DropsProducersTooEarly(Variant):
    engine = ThriftyEngine


class CarelessCatalog(SimulatedCatalog):
    """Forgets the records of streams that could not be saved."""

    def checkpoint(self, changes: Changes) -> None:
        super().checkpoint(msgspec.structs.replace(changes, held=()))


class ForgetsWhatItCannotSave(Variant):
    catalog = CarelessCatalog


class HoldingCatalog(SimulatedCatalog):
    """Keeps those records when their stream is saved."""

    def _release_held(self, saved: list[int]) -> None:
        pass


class ReplaysWhatIsSaved(Variant):
    catalog = HoldingCatalog


class RowlessCatalog(SimulatedCatalog):
    """Forgets rows of subscriptions at checkpoints."""

    def checkpoint(self, changes: Changes) -> None:
        super().checkpoint(msgspec.structs.replace(changes, kept={}))


class ForgetsSubscriptions(Subscribed):
    catalog = RowlessCatalog


class LateJournal(WatchedJournal):
    """Records whom an append wakes behind the append."""

    def keep(self, rows: Mapping[str, bytes | None]) -> None:
        self._late = [*getattr(self, "_late", []), rows]

    def append(self, *arguments: Any) -> Pending[Any]:
        done = super().append(*arguments)
        self._keep_late()
        return done

    def create(self, *arguments: Any) -> Pending[Any]:
        done = super().create(*arguments)
        self._keep_late()
        return done

    def confirm(self, decision: Any) -> Any:
        self._keep_late()
        return super().confirm(decision)

    def _keep_late(self) -> None:
        late, self._late = getattr(self, "_late", []), []
        for rows in late:
            super().keep(rows)


class WakesAfterTheAppend(Subscribed):
    journal = LateJournal


class DeafJournal(WatchedJournal):
    """Answers workers before what they did is durable."""

    def confirm(self, decision: Any) -> Any:
        return decision


class AnswersWorkersEarly(Subscribed):
    journal = DeafJournal


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
        ForgetsLimits,
        ForgetsToCopyOnWrite,
        DropsProducersTooEarly,
        ForgetsWhatItCannotSave,
        ReplaysWhatIsSaved,
        ForgetsSubscriptions,
        WakesAfterTheAppend,
        AnswersWorkersEarly,
    ],
)
def test_a_broken_engine_is_caught(variant: type[Variant]) -> None:
    caught = first_violation(variant, range(600))
    assert caught is not None, "600 seeds passed, and the mistake was not found"
    print(f"seed {caught[0]}: {caught[1]}")
