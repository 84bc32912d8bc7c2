"""One client that notes when each of its requests began, how long it took, and what came back."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.scenarios.streams import TEXT, connection
from tests.running import Server

Request = tuple[str, str, bytes]
"""Method, path and body."""


@dataclass(frozen=True)
class Timed:
    """A request that was answered; times as `time.perf_counter` gives them."""

    begun_s: float
    took_s: float
    status: int


@contextmanager
def timing(server: Server, requests: Iterator[Request], pause_s: float = 0.0) -> Iterator[list[Timed]]:
    """Send requests in the background, one after the other, for as long as the context lasts."""
    timed: list[Timed] = []
    done = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with connection(server) as opened:
                for method, path, body in requests:
                    begun_s = time.perf_counter()
                    opened.request(method, path, body, {"Content-Type": TEXT})
                    answer = opened.getresponse()
                    answer.read()
                    timed.append(Timed(begun_s, time.perf_counter() - begun_s, answer.status))
                    if done.wait(pause_s) if pause_s else done.is_set():
                        return
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield timed
    finally:
        done.set()
        thread.join()
    if failures:
        raise failures[0]


def percentile_ms(timed: Sequence[Timed], percent: int) -> float:
    """The time that this part of the requests did not exceed."""
    ordered = sorted(one.took_s for one in timed) or [0.0]
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1e3
