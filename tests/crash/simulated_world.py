"""What everybody in a simulation shares: dice, a clock, a disk, and the engine that runs on it just now."""

import random

from millstream.store.table import Table

from .simulated_disk import SimulatedDisk
from .simulated_engine import WatchedEngine

_START_MS = 1_700_000_000_000


class ViolationError(AssertionError):
    """The engine broke its promise."""


class World:
    """One seed's."""

    engine: WatchedEngine
    store: Table
    """One after the other: a crash ends it, and the machine opens the next."""

    def __init__(self, dice: random.Random, disk: SimulatedDisk, *, verbose: bool) -> None:
        self.random = dice
        self.disk = disk
        self.now_ms = _START_MS
        self.set_back_ms = 0  # by how much the clock was set back, in all
        self._verbose = verbose

    def set_clock_back(self, by_ms: int) -> None:
        """Let the clock go back; times of appends must not (rule X7)."""
        self.now_ms -= by_ms
        self.set_back_ms += by_ms

    def check(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise ViolationError(otherwise)

    def say(self, what: str) -> None:
        if self._verbose:
            print(f"{self.disk.steps:5} {self.now_ms - _START_MS:7} {what}")
