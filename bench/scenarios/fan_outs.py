"""Messages to many live readers: how soon at an easy pace, and how many while writers do not wait.

At full speed, four writers append all the time, unless the readers are 64 messages behind (`bench.readers`).
"""

from bench.cpu import Cpu
from bench.crowd import CrowdReport, crowd
from bench.rounds import Effort, Sample, Scenario
from bench.scenarios.streams import PATH, create
from tests.running import Server

EASY_PACE = 10  # messages a second, to each reader
WARM_UP_READERS = 100
WARM_UP_S = 1
WRITERS = 16


def deliver(server: Server, readers: int, order: str, mode: str = "sse") -> tuple[CrowdReport, float | None]:
    with crowd(server.url + PATH, readers, mode) as connected:
        cpu = Cpu(server.pid)
        report = connected.obey(order)
        return report, cpu.us_per(report.delivered)


def prepare(server: Server, effort: Effort) -> None:
    create(server)
    deliver(server, WARM_UP_READERS, f"full {WARM_UP_S} {WRITERS}")


def measure_latency(server: Server, effort: Effort) -> Sample:
    report, cpu_us = deliver(server, effort.readers, f"paced {EASY_PACE} {effort.seconds}")
    return Sample(report.p99_ms, cpu_us, report.p50_ms, report.p99_ms, report.reader_cpu_share)


def throughput(readers: int, mode: str = "sse", writers: int = WRITERS) -> Scenario:
    """Make a scenario of readers that are sent all they can take; with one writer, order is checked."""

    def measure(server: Server, effort: Effort) -> Sample:
        report, cpu_us = deliver(server, readers, f"full {effort.seconds} {writers}", mode)
        rate = report.delivered / report.seconds
        return Sample(rate, cpu_us, report.p50_ms, report.p99_ms, report.reader_cpu_share)

    kind = "SSE" if mode == "sse" else mode
    title = f"{kind}, {readers:,} reader" + ("s" if readers > 1 else "")
    title += ", writers do not wait" if writers > 1 else ", one writer, order checked"
    return Scenario(f"{mode}-{readers}", title, "messages/s", measure, prepare)


ALL = (
    Scenario(
        name="fan-out-latency",
        title=f"SSE, 1,000 readers, {EASY_PACE} messages/s",
        unit="ms p99",
        measure=measure_latency,
        prepare=prepare,
        less_is_better=True,
    ),
    throughput(100),
    throughput(1_000),
    throughput(10_000, writers=1),
    throughput(1, "long-poll"),
    throughput(100, "long-poll"),
)
