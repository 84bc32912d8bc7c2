"""What the engine has beside it: a committer, jobs in the background, and a guard over its files."""

import asyncio
from collections.abc import Callable

import msgspec

from millstream.store.log.guard import Guard
from millstream.store.log.wal.commit import Committer, Outcome
from millstream.store.log.wal.segments import Log


class Runtime(msgspec.Struct):
    """How the engine gets things done beside the event loop; a simulation has its own way."""

    start_committer: Callable[[Log, Callable[[Outcome], None]], Committer]
    """Start what commits records; it reports on the event loop."""

    in_background: Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]
    """Run a job, then report on the event loop how it ended."""

    guard: Guard | None = None
    """Held while files change, where others may want to copy them."""

    jobs: int = 0
    """How many were begun and are not over."""

    def begin_job(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run a job in the background, and count it until it is over."""

        def finished(error: BaseException | None) -> None:
            self.jobs -= 1
            done(error)

        self.jobs += 1
        self.in_background(job, finished)

    async def jobs_done(self) -> None:
        """Wait until no job is left."""
        while self.jobs:  # noqa: ASYNC110  once, at the end: not worth an event
            await asyncio.sleep(0.01)

    def take_guard(self) -> bool:
        """Tell whether files may change now, and keep others from copying them until that is over."""
        return self.guard is None or self.guard.take()

    def give_guard_back(self) -> None:
        """Let others copy files."""
        if self.guard is not None:
            self.guard.give_back()
