"""What the engine has around it: a committer, background jobs, a guard over its files, and its folder.

A simulation replaces all of these by its own; the defaults are those of an engine without a folder.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from millstream.store.log.pace import CallOnLoop, Rest, Turns, no_rest
from millstream.store.log.saving.guard import Guard
from millstream.store.log.wal.commit import Committer, Outcome
from millstream.store.log.wal.segments import Log
from millstream.store.measures import Sizes
from millstream.store.slices import Slices


class Runtime(msgspec.Struct):
    """How the engine gets things done beside the event loop."""

    start_committer: Callable[[Log, Callable[[Outcome], None]], Committer]
    """Start what commits records; it reports on the event loop."""

    in_background: Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]
    """Run a job, then report on the event loop how it ended."""

    in_turns: Callable[[Callable[[], None]], None] = msgspec.field(default_factory=lambda: Slices().add)
    """Run something in one of the next turns of the event loop, which it holds up for some milliseconds."""

    items_per_turn: int = 50
    """How many streams are looked at in one go."""

    call_on_loop: CallOnLoop | None = None
    """How a job asks the event loop for its turns; it takes none without this."""

    guard: Guard | None = None
    """Held while files change, where a backup may copy them."""

    opening: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    """Wraps the opening, to explain its errors."""

    release: Callable[[], None] = lambda: None
    """Release what is left when the engine is closed."""

    log_bytes: Callable[[], int] = lambda: 0
    """Give the size of the log."""

    measure_sizes: Callable[[], Sizes | None] = lambda: None
    """Measure how much room the data takes."""

    jobs: int = 0
    """How many jobs and works on the event loop were begun and are not finished."""

    is_awaited: bool = False
    """Whether somebody waits until no job is left; then none rests."""

    def begin_job(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run a job in the background, and count it until it is finished."""

        def finished(error: BaseException | None) -> None:
            self.jobs -= 1
            done(error)

        self.jobs += 1
        self.in_background(job, finished)

    def rest(self, is_urgent: Callable[[], bool] = lambda: False) -> Rest:
        """Give what a job that begins now calls between its items."""
        if self.call_on_loop is None:
            return no_rest
        return Turns(self.call_on_loop, lambda: self.is_awaited or is_urgent()).rest

    def begin_work(self, work: Iterator[None], done: Callable[[], None]) -> None:
        """Do work on the event loop, some items of it at once and the rest in later turns."""

        def turn() -> None:
            try:
                is_left = len(list(islice(work, self.items_per_turn))) == self.items_per_turn
            except BaseException:
                self.jobs -= 1
                raise
            if is_left:
                self.in_turns(turn)
            else:
                self.jobs -= 1
                done()

        self.jobs += 1
        turn()

    async def jobs_done(self) -> None:
        """Wait until no job is left."""
        self.is_awaited = True
        while self.jobs:  # noqa: ASYNC110  once, at the end: not worth an event
            await asyncio.sleep(0.01)
        self.is_awaited = False

    def take_guard(self) -> bool:
        """Take the guard, if no backup holds it; files may change only then."""
        return self.guard is None or self.guard.take()

    def release_guard(self) -> None:
        """Release the guard: a backup may copy files."""
        if self.guard is not None:
            self.guard.release()
