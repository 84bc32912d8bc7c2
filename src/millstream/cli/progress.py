"""A progress bar on standard error, if that is a terminal."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from millstream.cli.terminals import inert_line
from millstream.cli.units import number, size

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


BEGINS_AFTER_S: Final = 0.7
"""Shorter work shows no bar."""


class ProgressBar:
    """Counts work done; shows it, with its rate, if it takes long and this is a terminal."""

    def __init__(self, what: str, *, total_bytes: int | None = None, hidden: bool = False) -> None:
        self.bytes = 0
        self.items = 0
        self._what = what
        self._total = total_bytes
        self._shows = sys.stderr.isatty() and not hidden
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    @property
    def seconds(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._began

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, items: int, bytes: int) -> None:
        """Add to the count."""
        self.items += items
        self.bytes += bytes
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=self.bytes, items=number(self.items))
        elif self._shows and self.seconds > BEGINS_AFTER_S:
            self._progress = _bar(known=self._total is not None)
            self._task = self._progress.add_task(self._what, total=self._total, items="")
            self._progress.start()


def _bar(*, known: bool) -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    ends: tuple[ProgressColumn, ...] = (
        (BarColumn(), TimeRemainingColumn()) if known else (TimeElapsedColumn(),)
    )
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[items]}"),
        DownloadColumn(),
        TransferSpeedColumn(),
        *ends,
        console=Console(stderr=True),
        transient=True,
    )


@contextlib.contextmanager
def activity(first: str) -> Iterator[Callable[[str], None]]:
    """Show progress by time; returns a function that sets the description."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console

    with Console(stderr=True).status(first) as status:
        yield lambda text: status.update(text)


@contextlib.contextmanager
def long_activity(description: str) -> Iterator[None]:
    """Show that something goes on, once it takes long."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.markup import escape

    ended = threading.Event()

    def show() -> None:
        if not ended.wait(BEGINS_AFTER_S):
            with activity(escape(inert_line(description))):
                ended.wait()

    shower = threading.Thread(target=show, name="millstream-progress")
    shower.start()
    try:
        yield
    finally:
        ended.set()
        shower.join()


def rate(items: int, bytes: int, seconds: float) -> str:
    """Format an amount and its rate."""
    return f"{number(items / seconds)}/s, {size(bytes / seconds)}/s" if seconds > 0 else ""
