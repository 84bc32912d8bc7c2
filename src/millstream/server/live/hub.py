"""The hub: which readers wait for which stream, and how they are woken.

Readers are kept by stream, so that an append costs only what its own readers cost. A change wakes them in
slices, one or a few in each turn of the event loop:

        turn        1         2         3                    n
        readers     1..16     17..32    33..48     ...       ..1000     then again, if it changed meanwhile
        appends       ^ in        ^ between      ^ them

Appends are let in between two slices. A reader that is woken later finds all that was appended until then and
is sent it in one write, so a stream with many readers takes more appends with fewer writes, the more the
higher the load. A change during a pass wakes everybody once more after it, and not once for each change.

A stream that changes faster than its readers can be woken would be passed over again and again, with few
messages each time, and readers that are slower than that would queue what they are sent. So the hub pauses
between two passes for as long as the first one took, at most 10 ms: messages gather, and at least half of the
time is for appends and for readers to catch up. A stream that did not change during a pass never waits.

A slice has at least 16 readers: woken together, they are at the same position and share their frames. It
has more when a stream has very many readers, so that a pass takes a limited number of turns whatever the
appends cost in between. Streams take turns: one with many readers does not hold up another with few.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

_SLICE: Final = 16
_MAX_TURNS: Final = 64  # of a pass
_MAX_PAUSE_S: Final = 0.01  # between two passes

_log = logging.getLogger("millstream")


class Reader(Protocol):
    """A reader that waits for a stream to change."""

    def wake(self) -> None:
        """Read again: the stream has changed."""
        ...


class _Pass:
    """The readers of a changed stream that are still to be woken."""

    __slots__ = ("began_s", "left", "repeats", "slice_size")

    def __init__(self) -> None:
        self.left: list[Reader] | None = None  # None before its first slice
        self.began_s = 0.0
        self.slice_size = 0
        self.repeats = False  # whether the stream has changed since the first slice


class Hub:
    """Waiting readers by stream."""

    def __init__(self, clock_s: Callable[[], float] = monotonic) -> None:
        self._clock_s = clock_s
        self.readers: dict[str, set[Reader]] = {}
        self._passes: dict[str, _Pass] = {}
        self._turns: deque[str] = deque()  # the streams of these passes, in the order of their next slice
        self._is_scheduled = False

    def watch(self, name: str, reader: Reader) -> None:
        """Wake a reader at every change of a stream, until it stops watching."""
        self.readers.setdefault(name, set()).add(reader)

    def unwatch(self, name: str, reader: Reader) -> None:
        """Stop waking a reader."""
        readers = self.readers.get(name)
        if readers is not None:
            readers.discard(reader)
            if not readers:
                del self.readers[name]

    def changed(self, name: str) -> None:
        """Wake the readers of a stream, from the end of this turn on: it has changed, and has readers."""
        under_way = self._passes.get(name)
        if under_way is not None:
            under_way.repeats = under_way.left is not None
            return
        self._passes[name] = _Pass()
        self._begin(name)

    def _begin(self, name: str) -> None:
        self._turns.append(name)
        self._schedule()

    def _schedule(self) -> None:
        if self._turns and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._wake_some)

    def _wake_some(self) -> None:
        """Wake a slice of the next stream, or of several if they have few readers."""
        self._is_scheduled = False
        enough = max(_SLICE, len(self._turns) // _MAX_TURNS)
        while self._turns and enough > 0:
            enough -= self._wake_slice()
        self._schedule()

    def _wake_slice(self) -> int:
        """Wake the next readers of the stream whose turn it is, and give how many."""
        name = self._turns.popleft()
        under_way = self._passes[name]
        left = under_way.left
        if left is None:
            under_way.began_s = self._clock_s()
            left = under_way.left = list(self.readers.get(name, ()))
            under_way.slice_size = max(_SLICE, -(-len(left) // _MAX_TURNS))
        woken = left[-under_way.slice_size :]
        del left[-under_way.slice_size :]
        if left:
            self._turns.append(name)
        elif under_way.repeats:
            self._passes[name] = _Pass()
            pause_s = min(self._clock_s() - under_way.began_s, _MAX_PAUSE_S)
            asyncio.get_running_loop().call_later(pause_s, self._begin, name)
        else:
            del self._passes[name]
        watching = self.readers.get(name, ())
        for reader in woken:
            if reader in watching:  # else it has left meanwhile
                try:
                    reader.wake()
                except Exception:  # one that fails must not keep the others asleep
                    _log.exception("a reader could not be woken")
        return max(1, len(woken))
