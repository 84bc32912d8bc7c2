"""Reads that end with their `with` block, or when nobody holds them any more."""

from types import TracebackType
from typing import Self


class Cancellable:
    """A read that can be cancelled; whoever inherits it has `_drive` as soon as there is something to end."""

    def cancel(self) -> None:
        """Stop reading, from any thread."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def __del__(self) -> None:
        if hasattr(self, "_drive"):
            self.cancel()
