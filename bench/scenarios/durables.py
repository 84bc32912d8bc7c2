"""What synced appends cost everybody else, and what many streams cost an append."""

import subprocess
import sys
import time

from bench.cpu import Cpu
from bench.load import Load, LoadReport, apply
from bench.rounds import Effort, Sample, Scenario
from bench.scenarios.appends import LEAST_BYTES, MOST_BYTES
from bench.scenarios.streams import PATH, create, create_many
from tests.running import Server

WARM_UP_S = 1.0
FEW_STREAMS = 10


def append_cost_us(server: Server, streams: int, seconds: float) -> float:
    """Processor time of one append to a server whose load goes to a few of its many streams."""
    cpu = Cpu(server.pid)
    report = apply(Load(server.url + PATH, "POST", 64, LEAST_BYTES, MOST_BYTES, streams), seconds)
    cost = cpu.us_per(report.requests)
    return cost if cost is not None else report.seconds * 1e6 / report.requests


def measure_growth(server: Server, effort: Effort) -> Sample:
    create_many(server, 0, FEW_STREAMS)
    append_cost_us(server, FEW_STREAMS, WARM_UP_S)
    small = append_cost_us(server, FEW_STREAMS, effort.seconds)
    create_many(server, FEW_STREAMS, effort.many_streams - FEW_STREAMS)
    large = append_cost_us(server, FEW_STREAMS, effort.seconds)
    return Sample(large / small)


def measure_disturbance(server: Server, effort: Effort) -> Sample:
    """How much slower a small read gets, at its 99th percentile, while others append at full speed."""
    create(server, b"x" * MOST_BYTES)
    create_many(server, 0, 1)
    read = Load(server.url + PATH, "GET", 1)
    apply(read, WARM_UP_S)
    idle = apply(read, effort.seconds)
    url = server.url + PATH + "/0"
    with subprocess.Popen([sys.executable, "-c", _BACKGROUND, url, str(effort.seconds + 2)]) as writers:
        time.sleep(WARM_UP_S)  # reads before the first append are many, and quick
        busy: LoadReport = apply(read, effort.seconds)
        if writers.wait():
            raise RuntimeError("the appends failed; their error is above")
    return Sample(busy.p99_ms / idle.p99_ms, p50_ms=busy.p50_ms, p99_ms=busy.p99_ms)


_BACKGROUND = f"""
import sys
from bench.load import Load, apply
apply(Load(sys.argv[1], "POST", 64, {LEAST_BYTES}, {MOST_BYTES}), float(sys.argv[2]))
"""


def nothing(server: Server, effort: Effort) -> None:
    """These scenarios prepare what they need in between."""


ALL = (
    Scenario(
        name="synced-growth",
        title="append to 10 streams beside many",
        unit="x that with 10",
        measure=measure_growth,
        prepare=nothing,
        less_is_better=True,
        fresh_servers=True,
        only_ours=True,
    ),
    Scenario(
        name="synced-disturbance",
        title="p99 of a read beside full-speed appends",
        unit="x idle",
        measure=measure_disturbance,
        prepare=nothing,
        less_is_better=True,
        fresh_servers=True,
        waits_for_disk=True,
    ),
)
