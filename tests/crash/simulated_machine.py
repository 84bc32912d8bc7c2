"""The machine that the engine runs on: it boots, commits, runs jobs, has faults, and crashes at random."""

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from millstream.store.log.reserve import Reserve
from millstream.store.log.runtime import Runtime
from millstream.store.log.wal.commit import Outcome
from millstream.store.log.wal.segments import Log
from millstream.store.table import Table

from .expectations import Expectations
from .leftovers import check_part_files, check_room
from .simulated_disk import CrashError
from .simulated_engine import SimulatedCommitter, Variant
from .simulated_world import World

RESERVES = ((0, 0), (1_000, 1_000), (1_500, 9_000), (2_500, 2_500))
"""First and largest sizes of the reserve."""


class Machine:
    """A disk with its catalog, and one engine after the other."""

    def __init__(self, world: World, variant: type[Variant], expected: Expectations) -> None:
        self.world = world
        self.random = world.random
        self.disk = world.disk
        self.variant = variant
        self.expected = expected
        self.catalog = variant.catalog(world.disk)
        self.jobs: deque[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = deque()
        self.in_job = False
        self.crashes = 0

    # -- Its lives ---------------------------------------------------------------------------------

    def boot(self) -> None:
        """Open what the last life left, though some attempts may crash."""
        for _ in range(6):
            if self.random.random() < 0.25:
                self.disk.crash_at = self.disk.steps + self.random.randint(1, 6)
            try:
                self.open()
            except CrashError as crash:
                self.world.say(f"crash while recovering, {crash}")
                self.crash()
                continue
            self.disk.crash_at = None
            return
        self.open()

    def open(self) -> None:
        """Put an engine on the disk, and let it recover."""
        salt = (lambda: self.random.randbytes(8)) if self.variant.salted else (lambda: b"saltless")
        log = self.variant.log(
            self.disk, segment_bytes=2048, new_salt=salt, first_segment_bytes=512, fills=True
        )
        self.world.engine = self.variant.engine(
            self.disk,
            self.catalog,
            log,
            Runtime(
                self._start_committer,
                self._in_background,
                in_turns=self._in_turns,
                items_per_turn=self.random.choice((1, 2, 5)),
            ),
            Reserve(self.disk, self.random.choice(RESERVES), 500, self.random.randbytes),
            checkpoint_bytes=self.random.choice((1_000, 4_000, 32 * 2**20)),
            memory_bytes=self.random.choice((2_000, 8_000, 2**30)),
        )
        self.world.engine.watch(self.expected, self.variant.journal)
        self.world.store = Table(self.world.engine)
        _drive(self.world.store.open())
        self.world.say(f"recovered up to {self.world.engine.journal.lsn}, seen {self.expected.seen_lsn}")

    def crash(self) -> None:
        """End the process, or the power."""
        self.crashes += 1
        power = self.random.random() < 0.6
        self.world.say("power cut" if power else "kill")
        self.disk.power_cut() if power else self.disk.kill()
        self.in_job = False
        self.jobs.clear()
        self.expected.on_crash()
        self.disk.capacity = None

    def shut_down(self) -> None:
        """End as a server does, with everything done; then nothing is left that is not needed."""
        self.disk.capacity = None
        self.disk.crash_at = None
        self.disk._faults.clear()
        self.disk.unwritable.clear()
        self.catalog.unwritable.clear()
        while self.committer.queue or self.committer.reports or self.jobs:
            if self.committer.queue and not self.committer.parked:
                self.committer.commit(1)
            elif self.committer.reports:
                self.committer.deliver()
            elif self.jobs:
                self.run_job()
            else:
                break
        self.disk.capacity = None  # the weather may have changed while jobs ran
        self.disk._faults.clear()
        self.disk.unwritable.clear()
        self.catalog.unwritable.clear()
        _drive(self.world.store.close())
        self.world.say("closed")
        self.world.check(self.disk.open_files == 0, f"{self.disk.open_files} files were left open")
        check_part_files(self.world)
        check_room(self.world, self.catalog)
        self.crash()

    # -- What the engine has beside it -------------------------------------------------------------

    def _start_committer(self, log: Log, report: Callable[[Outcome], None]) -> SimulatedCommitter:
        self.committer = self.variant.committer(log, report)
        return self.committer

    def _in_background(self, job: Callable[[], None], report: Callable[[BaseException | None], None]) -> None:
        self.jobs.append((job, report))

    def _in_turns(self, turn: Callable[[], None]) -> None:
        self.jobs.append((lambda: None, lambda _: turn()))

    def commit(self) -> None:
        """The committer writes some of what it has."""
        if not self.committer.parked:
            self.committer.commit(self.random.randint(1, 6))

    def report(self) -> None:
        """The engine hears what came of a commit."""
        if self.committer.reports:
            self.world.say(f"report: {self.committer.reports[0]}")
            self.committer.deliver()

    def run_job(self) -> None:
        """A job of the background runs, and the engine hears how it ended."""
        if not self.jobs:
            return
        job, report = self.jobs.popleft()
        error: BaseException | None = None
        self.in_job = True
        try:
            job()
        except Exception as problem:
            error = problem
        finally:
            self.in_job = False
        self.world.say(f"job done: {error!r}")
        self.expected.changes.clear()
        report(error)
        damaged = self.world.engine.measures.damaged_streams
        self.world.check(not damaged, f"the scrub complains about {damaged} streams, and none is damaged")
        self.expected.take_renewals()  # a stream may need one before it leaves memory

    def checkpoint(self) -> None:
        """A checkpoint begins, earlier than it is due."""
        engine = self.world.engine
        is_busy = engine.checkpoints.under_way or engine.scrub.is_running or engine.reclaiming.is_running
        if engine.journal.refusal is None and not is_busy:
            self.world.say("checkpoint")
            engine.checkpoint()

    # -- Faults ------------------------------------------------------------------------------------

    def change_weather(self) -> None:
        """The disk gets full, or has room again; or one operation of it will fail."""
        kind = self.random.random()
        if self.disk.capacity is not None:
            self.disk.capacity = None
        elif kind < 0.6:
            self.disk.capacity = self.disk.used() + self.random.randint(0, 3000)
        elif kind < 0.7:
            self.disk.fail_next("sync")
        elif kind < 0.8:
            self.disk.fail_next("write")
        elif kind < 0.85:
            self.disk.unwritable.clear()
            self.catalog.unwritable.clear()
        else:
            kept = self.disk.unwritable if self.random.random() < 0.7 else self.catalog.unwritable
            kept.add(self.random.randint(1, self.world.engine.streams.last_id + 1))


def _drive(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that has nothing to wait for."""
    try:
        while True:
            work.send(None)
    except StopIteration:
        pass
