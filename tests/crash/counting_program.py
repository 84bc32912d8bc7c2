"""A program that raises a shared counter, as a user would: with `update` (rule X6). It is killed at any time.

    python counting_program.py {sync|async} URL WORKER GOAL

Each of its messages is {"worker", "n", "total"}: it raises the total by one, and is the worker's n-th. It
goes on where the stream says that the worker was, until the worker's goal is reached, and prints each n when
it is stored. An update that raised the total by more or less than one ends it with an error.
"""

import asyncio
import sys
from typing import Any

from millstream import DurableStream, Retry, aio

PATIENT = Retry(initial_delay_s=0.02, max_delay_s=0.2, max_total_s=120)


class Worker:
    """What one worker decides, and what it knows to be stored."""

    def __init__(self, name: str, goal: int) -> None:
        self.done: int | None = None
        self._name = name
        self._goal = goal
        self._decided = 0

    def decide(self, messages: list[dict[str, Any]]) -> dict[str, Any] | None:
        total = messages[-1]["total"] if messages else 0
        mine = max((one["n"] for one in messages if one["worker"] == self._name), default=0)
        if self.done is None:
            self.done = mine
        self._decided = mine + 1
        return {"worker": self._name, "n": mine + 1, "total": total + 1} if mine < self._goal else None

    def stored(self) -> None:
        """Check that one update stored one message."""
        assert self.done is not None
        if self._decided != self.done + 1:
            sys.exit(f"{self._name} stored number {self._decided} after {self.done}")
        self.done = self._decided
        print(self.done, flush=True)


def count(url: str, worker: Worker) -> None:
    counter = DurableStream(url, retry=PATIENT)
    while counter.update(worker.decide) is not None:
        worker.stored()


async def count_async(url: str, worker: Worker) -> None:
    counter = aio.DurableStream(url, retry=PATIENT)
    while await counter.update(worker.decide) is not None:
        worker.stored()


if __name__ == "__main__":
    kind, url, name, goal = sys.argv[1:]
    if kind == "sync":
        count(url, Worker(name, int(goal)))
    else:
        asyncio.run(count_async(url, Worker(name, int(goal))))
