"""Many connections that repeat one request as fast as they are answered.

`wrk` does it when it is installed: written in C, it costs the least of what it measures. Otherwise
`bench.generator` does, in a process of its own. Both print the same line of JSON.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).parent / "repeat.lua"


@dataclass(frozen=True)
class Load:
    """One request, and how many connections repeat it."""

    url: str
    method: str
    connections: int
    body_bytes: int = 0  # of text/plain
    streams: int = 1  # with more than one, the URLs are url/0, url/1, ... in turn


@dataclass(frozen=True)
class LoadReport:
    """What came back."""

    requests: int
    seconds: float
    errors: int
    p50_ms: float
    p99_ms: float


def apply(load: Load, seconds: float) -> LoadReport:
    """Put the load on its server for about `seconds` (whole ones, with wrk)."""
    arguments = [load.method, str(load.body_bytes), str(load.streams)]
    if shutil.which("wrk"):
        options = ["-t1", f"-c{load.connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s"]
        command = ["wrk", *options, "-s", str(SCRIPT), load.url, "--", *arguments]
    else:
        generator = [sys.executable, "-m", "bench.generator"]
        command = [*generator, load.url, str(load.connections), str(seconds), *arguments]
    report = run(command, seconds)
    if report.errors:
        raise RuntimeError(f"{report.errors} of {report.requests} requests to {load.url} failed")
    return report


def run(command: list[str], seconds: float) -> LoadReport:
    """Run a generator that ends by itself after `seconds`, and read its report."""
    finished = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=True)
    return LoadReport(**json.loads(finished.stdout.splitlines()[-1]))
