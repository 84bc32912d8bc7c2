"""Scenarios of one kind of request: so many connections send it as fast as they are answered."""

from collections.abc import Callable

from bench.cpu import Cpu
from bench.load import Load, apply
from bench.rounds import Effort, Sample, Scenario
from tests.running import Server

CONNECTIONS = 64
WARM_UP_S = 1.0

MakeLoad = Callable[[Server], Load]


def measure(load: Load, server: Server, seconds: float) -> Sample:
    """Put a load on a server; give its rate, its latencies and what a request costs the server."""
    cpu = Cpu(server.pid)
    report = apply(load, seconds)
    rate = report.requests / report.seconds
    return Sample(rate, cpu.us_per(report.requests), report.p50_ms, report.p99_ms)


def scenario(
    name: str,
    title: str,
    unit: str,
    load: MakeLoad,
    create: Callable[[Server], None],
    *,
    durable: bool = True,
    waits_for_disk: bool = False,
    static_bytes: int = 0,
) -> Scenario:
    """Make a scenario of a load on what `create` makes."""

    def prepare(server: Server, effort: Effort) -> None:
        create(server)
        apply(load(server), WARM_UP_S)

    return Scenario(
        name=name,
        title=title,
        unit=unit,
        measure=lambda server, effort: measure(load(server), server, effort.seconds),
        prepare=prepare,
        durable=durable,
        waits_for_disk=waits_for_disk,
        static_bytes=(lambda _effort: static_bytes) if static_bytes else None,
    )
