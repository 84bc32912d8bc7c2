"""Many connections that send requests as fast as they are answered.

The requests are those of real clients: a header varies from each to the next, and so does the length of what
is appended. `wrk` sends them when it is installed: written in C, it costs the least of what it measures.
Otherwise `bench.generator` does, in a process of its own. Both print the same line of JSON.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).parent / "traffic.lua"


@dataclass(frozen=True)
class Load:
    """A kind of request, and how many connections send it."""

    url: str
    method: str
    connections: int
    least_bytes: int = 0  # of text/plain, in an append
    most_bytes: int = 0
    streams: int = 1  # with more than one, the URLs are url/0, url/1, ... in turn
    producers: int = 0  # that take turns; many, so that none overtakes itself on another connection
    read_percent: int = 0  # of a mixed load, which reads url/read/0, ... and appends to url/0, ...

    is_same: bool = False  # whether all requests are equal to the byte, as those of no real client are

    def arguments(self) -> list[str]:
        """What both generators are told."""
        sizes = (self.least_bytes, self.most_bytes, self.streams, self.producers, self.read_percent)
        return [self.method, *map(str, sizes), str(int(self.is_same))]


@dataclass(frozen=True)
class LoadReport:
    """What came back."""

    requests: int
    seconds: float
    errors: int
    p50_ms: float
    p99_ms: float


def apply(load: Load, seconds: float) -> LoadReport:
    """Put the load on its server for about `seconds` (whole ones, with wrk); an error ends it."""
    report = attempt(load, seconds)
    if report.errors:
        raise RuntimeError(f"{report.errors} of {report.requests} requests to {load.url} failed")
    return report


def attempt(load: Load, seconds: float) -> LoadReport:
    """Put the load on its server, and count what it refuses, too."""
    if shutil.which("wrk") and load.method != "HEAD":  # wrk waits for the body of a HEAD
        options = ["-t1", f"-c{load.connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s"]
        command = ["wrk", *options, "-s", str(SCRIPT), load.url, "--", *load.arguments()]
    else:
        generator = [sys.executable, "-m", "bench.generator"]
        command = [*generator, load.url, str(load.connections), str(seconds), *load.arguments()]
    return run(command, seconds)


def run(command: list[str], seconds: float) -> LoadReport:
    """Run a generator that ends by itself after `seconds`, and read its report."""
    finished = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=True)
    return LoadReport(**json.loads(finished.stdout.splitlines()[-1]))
