"""Appends of 100 bytes to one stream in memory: the price of a small write."""

from bench.cpu import Cpu
from bench.load import Load, apply
from bench.rounds import Effort, Sample, Scenario
from bench.scenarios.streams import PATH, create
from tests.running import Server

MESSAGE_BYTES = 100
WARM_UP_S = 1.0


def scenario(connections: int) -> Scenario:
    def load(server: Server) -> Load:
        return Load(server.url + PATH, "POST", connections, MESSAGE_BYTES)

    def prepare(server: Server, effort: Effort) -> None:
        create(server)
        apply(load(server), WARM_UP_S)

    def measure(server: Server, effort: Effort) -> Sample:
        cpu = Cpu(server.pid)
        report = apply(load(server), effort.seconds)
        rate = report.requests / report.seconds
        return Sample(rate, cpu.us_per(report.requests), report.p50_ms, report.p99_ms)

    title = f"append 100 B, {connections} connection" + ("s" if connections > 1 else "")
    return Scenario(f"append-{connections}", title, "appends/s", measure, prepare)


ALL = (scenario(64), scenario(1))
