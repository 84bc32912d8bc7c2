"""The crowd of live readers as this process sees it: a child that says `ready` and then obeys."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class CrowdReport:
    """What the readers of `bench.readers` got."""

    delivered: int
    seconds: float
    lost: int
    disordered: int
    p50_ms: float
    p99_ms: float
    reader_cpu_share: float


class Crowd:
    """Readers that are connected and wait."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def obey(self, order: str) -> CrowdReport:
        """Let the writer append as `order` says, and give the report; once only."""
        output, _ = self._process.communicate(order + "\n", timeout=300)
        if self._process.returncode:
            raise RuntimeError("the readers failed; their error is above")
        report = CrowdReport(**json.loads(output))
        if report.lost:
            raise RuntimeError(f"{report.lost} readers lost their connection")
        if report.disordered:
            raise RuntimeError(f"messages came out of order, or not all, {report.disordered} times")
        return report


@contextmanager
def crowd(url: str, readers: int, mode: str = "sse", writer_url: str | None = None) -> Iterator[Crowd]:
    """Connect `readers` live readers to `url`, and writers to another server if one is named."""
    command = [sys.executable, "-m", "bench.readers", url, str(readers), mode, writer_url or url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the readers could not connect; their error is above")
            yield Crowd(process)
        finally:
            process.kill()
