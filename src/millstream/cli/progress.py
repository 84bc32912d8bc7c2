"""Progress of what takes long: on a terminal's standard error, nowhere else."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from millstream.cli.units import number, size

if TYPE_CHECKING:
    from rich.progress import Progress


class Meter:
    """Counts what has been done; shows it, with its rate, if somebody watches."""

    def __init__(self, what: str, *, total_bytes: int | None = None, hidden: bool = False) -> None:
        self.bytes = 0
        self.items = 0
        self._what = what
        self._total = total_bytes
        self._shows = sys.stderr.isatty() and not hidden
        self._progress: Progress | None = None

    def __enter__(self) -> Self:
        if self._shows:
            self._progress = _bar(known=self._total is not None)
            self._task = self._progress.add_task(self._what, total=self._total, items="")
            self._progress.start()
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
        """Count more."""
        self.items += items
        self.bytes += bytes
        if self._progress is not None:
            self._progress.update(self._task, completed=self.bytes, items=number(self.items))

    def say(self, text: str) -> None:
        """Change what is written beside the bar."""
        if self._progress is not None:
            self._progress.update(self._task, description=text)


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


def rate(items: int, bytes: int, seconds: float) -> str:
    """Write how much was done in a time."""
    return f"{number(items / seconds)}/s, {size(bytes / seconds)}/s" if seconds > 0 else ""
