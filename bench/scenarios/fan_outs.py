"""One message to a thousand SSE readers: how soon at an easy pace, and how many at full speed."""

from bench.cpu import Cpu
from bench.crowd import CrowdReport, crowd
from bench.rounds import Effort, Sample, Scenario
from bench.scenarios.streams import PATH, create
from tests.running import Server

EASY_PACE = 10  # messages a second, to each reader
WARM_UP_S = 1


def deliver(server: Server, readers: int, order: str) -> tuple[CrowdReport, float | None]:
    with crowd(server.url + PATH, readers) as connected:
        cpu = Cpu(server.pid)
        report = connected.obey(order)
        return report, cpu.us_per(report.delivered)


def prepare(server: Server, effort: Effort) -> None:
    create(server)
    deliver(server, effort.readers // 10, f"full {WARM_UP_S}")


def measure_latency(server: Server, effort: Effort) -> Sample:
    report, cpu_us = deliver(server, effort.readers, f"paced {EASY_PACE} {effort.seconds}")
    return Sample(report.p99_ms, cpu_us, report.p50_ms, report.p99_ms, report.reader_cpu_share)


def measure_throughput(server: Server, effort: Effort) -> Sample:
    report, cpu_us = deliver(server, effort.readers, f"full {effort.seconds}")
    rate = report.delivered / report.seconds
    return Sample(rate, cpu_us, report.p50_ms, report.p99_ms, report.reader_cpu_share)


ALL = (
    Scenario(
        name="fan-out-latency",
        title=f"SSE 1,000 readers, {EASY_PACE} msg/s",
        unit="ms p99",
        measure=measure_latency,
        prepare=prepare,
        less_is_better=True,
    ),
    Scenario(
        name="fan-out-full",
        title="SSE 1,000 readers, full speed",
        unit="deliveries/s",
        measure=measure_throughput,
        prepare=prepare,
    ),
)
