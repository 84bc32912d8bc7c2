"""When a server writes checkpoints, by its metrics, and which requests were under way meanwhile.

The metrics count checkpoints and add up how long they took. A count that has risen between two scrapes tells
that checkpoints ended in between, and the sum tells how long before they had begun. So the spans of time in
which one ran are known to within an interval. Snapshots are taken before a checkpoint is counted, and memory
is freed after it; spans are widened for both.
"""

import http.client
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.scenarios.streams import connection
from bench.scenarios.timing import Timed
from tests.running import Server

SCRAPE_S = 0.05
WIDENED_S = 0.05
PATIENCE_S = 15.0
METRICS = "/__ds/metrics"
_CHECKPOINTS = re.compile(r"^millstream_checkpoint_seconds_(count|sum) (\S+)$", re.MULTILINE)
_SIZE = "millstream_store_bytes"


class Checkpoints:
    """The checkpoints of some time: the spans in which they ran (`time.perf_counter`)."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []
        self._one_ended = threading.Event()

    def add(self, begun_s: float, ended_s: float) -> None:
        """Note that one or several ran one after the other."""
        self.spans.append((begun_s, ended_s))
        self._one_ended.set()

    def wait_for_next(self) -> None:
        """Wait until one more has ended: one that still runs is not known yet."""
        self._one_ended.clear()
        self._one_ended.wait(PATIENCE_S)

    def seconds(self, first_s: float, last_s: float) -> float:
        """How long checkpoints ran within some time."""
        total_s = 0.0
        for begun_s, ended_s in self.spans:
            begun_s, ended_s = max(begun_s, first_s), min(ended_s, last_s)
            total_s += max(0.0, ended_s - begun_s)
            first_s = max(first_s, ended_s)
        return total_s

    def during(self, timed: Sequence[Timed]) -> list[Timed]:
        """Choose the requests that were under way while a checkpoint ran."""
        return [
            one
            for one in timed
            if any(
                one.begun_s <= ended_s + WIDENED_S and begun_s - WIDENED_S <= one.begun_s + one.took_s
                for begun_s, ended_s in self.spans
            )
        ]


@contextmanager
def watching(server: Server) -> Iterator[Checkpoints]:
    """Scrape in the background for as long as the context lasts."""
    checkpoints, done = Checkpoints(), threading.Event()

    def run() -> None:
        with connection(server) as opened:
            before, before_s = _written(opened), time.perf_counter()
            while not done.wait(SCRAPE_S):
                now, now_s = _written(opened), time.perf_counter()
                if now[0] > before[0]:
                    checkpoints.add(before_s - (now[1] - before[1]), now_s)
                before, before_s = now, now_s

    _let_it_measure(server)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield checkpoints
    finally:
        done.set()
        thread.join()


def _written(opened: http.client.HTTPConnection) -> tuple[float, float]:
    """How many checkpoints have ended, and how long they took together."""
    found = dict(_CHECKPOINTS.findall(_metrics(opened)))
    return float(found["count"]), float(found["sum"])


def _let_it_measure(server: Server) -> None:
    """Let the first scrape measure the folder, which takes a while, before anything is timed."""
    with connection(server) as opened:
        while _SIZE not in _metrics(opened):
            time.sleep(SCRAPE_S)


def _metrics(opened: http.client.HTTPConnection) -> str:
    opened.request("GET", METRICS)
    return opened.getresponse().read().decode()
