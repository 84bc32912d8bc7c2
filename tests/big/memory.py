"""How much memory processes have held: sampled, with all that they have started."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SAMPLE_S = 0.25
MIB = 2**20


class Peaks:
    """The largest resident sets seen so far."""

    def __init__(self) -> None:
        self.largest: dict[str, int] = {}
        self.now: dict[str, int] = {}

    def see(self, found: dict[str, int]) -> None:
        self.now = found
        for name, size in found.items():
            self.largest[name] = max(size, self.largest.get(name, 0))

    def mib(self, name: str) -> int:
        return round(self.largest.get(name, 0) / MIB)


@contextmanager
def watching(server: int, spark_driver: int | None = None) -> Iterator[Peaks]:
    """Sample until the block ends: the `server`; below a driver the largest `jvm` and `python`."""
    peaks, stopped = Peaks(), threading.Event()
    peaks.see(_sample(server, spark_driver))

    def sample() -> None:
        while not stopped.wait(SAMPLE_S):
            peaks.see(_sample(server, spark_driver))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peaks
    finally:
        stopped.set()
        thread.join()


def _sample(server: int, spark_driver: int | None) -> dict[str, int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,rss=,comm="], capture_output=True, text=True)
    lines = [line.split(None, 3) for line in listed.stdout.splitlines()]
    processes = [line for line in lines if len(line) == 4]  # one that is just ending may have no name
    children: dict[int, list[int]] = {}
    sizes: dict[int, tuple[int, str]] = {}
    for pid, parent, rss_kib, command in processes:
        children.setdefault(int(parent), []).append(int(pid))
        sizes[int(pid)] = (int(rss_kib) * 1024, command)
    found = {"server": sizes.get(server, (0, ""))[0]}
    waiting = list(children.get(spark_driver, [])) if spark_driver is not None else []
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        size, command = sizes[pid]
        if pid != server and ("java" in command or "python" in command):
            name = "jvm" if "java" in command else "python"
            found[name] = max(size, found.get(name, 0))
    return found
