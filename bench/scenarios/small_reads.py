"""A catch-up read of one 100-byte message; nginx reads a file of that size."""

from bench.cpu import Cpu
from bench.load import Load, apply
from bench.rounds import Effort, Sample, Scenario
from bench.scenarios.streams import PATH, create
from tests.running import Server

MESSAGE_BYTES = 100
CONNECTIONS = 64
WARM_UP_S = 1.0


def load(server: Server) -> Load:
    return Load(server.url + PATH, "GET", CONNECTIONS)


def prepare(server: Server, effort: Effort) -> None:
    create(server, b"x" * MESSAGE_BYTES)
    apply(load(server), WARM_UP_S)


def measure(server: Server, effort: Effort) -> Sample:
    cpu = Cpu(server.pid)
    report = apply(load(server), effort.seconds)
    rate = report.requests / report.seconds
    return Sample(rate, cpu.us_per(report.requests), report.p50_ms, report.p99_ms)


ALL = (
    Scenario(
        name=f"get-{CONNECTIONS}",
        title=f"read 100 B, {CONNECTIONS} connections",
        unit="reads/s",
        measure=measure,
        prepare=prepare,
        static_bytes=lambda effort: MESSAGE_BYTES,
    ),
)
