"""Where we stand beside the fastest other server: Electric's, written in Rust.

        python -m bench.peers
        python -m bench.peers sse-100 sse-1000

Five interleaved rounds of each line on the same machine, both servers on the disk: medians with ranges, and
whether the median is within its bound. It takes about a quarter of an hour, and needs a quiet machine:
figures of a busy one mean nothing. The exit code is 1 when a line does not hold.

What each line measures is in the scenario of its name (`bench.scenarios`). All requests vary, except in the
line that says so. A ratio is ours to theirs, in rates; beyond 1 we are faster.
"""

import argparse
import datetime
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from rich.console import Console
from rich.table import Table

from bench import electric, machine, memory, table
from bench.rounds import ELECTRIC, FULL, OURS, Result, Sample, Scenario, Start, run
from bench.scenarios import ALL, appends
from bench.table import RESULTS, show_number
from tests.running import durable_millstream

ROUNDS = 5

Figures = Callable[[Result], list[float]]


def rate(result: Result) -> list[float]:
    """Ours to theirs, in each round."""
    return result.ratios(OURS, ELECTRIC)


def p99(result: Result) -> list[float]:
    """Our latency to theirs, in each round."""
    pairs = zip(result.samples[OURS], result.samples[ELECTRIC], strict=True)
    return [(own.p99_ms or 0.0) / (other.p99_ms or 1.0) for own, other in pairs]


def own(result: Result) -> list[float]:
    """Our own figure, in its unit."""
    return [sample.value for sample in result.samples[OURS]]


@dataclass(frozen=True)
class Line:
    """A claim: a scenario, a figure of it, and its bound."""

    scenario: Scenario
    what: str
    figures: Figures
    least: float = 0.0
    most: float = math.inf
    rounds: int = ROUNDS

    def holds(self, result: Result) -> bool:
        return self.least <= median(self.figures(result)) <= self.most

    @property
    def bound(self) -> str:
        if self.least:
            return f">= {self.least:g}"
        return f"<= {self.most:g}" if self.most < math.inf else ""


def lines() -> list[Line]:
    """Every claim, in the order of the table."""

    def ratio(name: str, least: float, rounds: int = ROUNDS) -> Line:
        return Line(ALL[name], "rate", rate, least=least, rounds=rounds)

    return [
        Line(appends.SAME, "rate", rate, least=1.0),
        ratio("synced-64", 0.85),
        ratio("synced-64-64", 1.0),
        ratio("synced-64-producers", 0.75),
        ratio("get-1024", 0.85),
        ratio("get-16384", 0.85),
        ratio("head", 0.65),
        ratio("mixed", 0.0),
        ratio("catch-up-files", 1.5),
        ratio("long-poll-100", 0.85),
        ratio("sse-100", 0.8),
        ratio("sse-1000", 0.9),
        Line(ALL["sse-1000"], "p99", p99, most=1.2),
        ratio("sse-10000", 0.0, rounds=1),  # its readers check that they get everything, in order
        Line(ALL["idle-crowd"], "KiB", own, most=2.5, rounds=1),
        Line(ALL["stalled-readers"], "MiB", own, most=1.0, rounds=1),
        Line(ALL["synced-disturbance"], "x idle", own, most=3.0),
    ]


def show(chosen: list[Line], results: dict[str, Result]) -> Table:
    """One row for each claim."""
    shown = Table(caption="CPU us: of the server, for each request or message. " + table.READERS_BUSY)
    for column in ("line", "ours", "electric", "CPU us", "p50 ms", "p99 ms", "figure", "bound", ""):
        shown.add_column(column, no_wrap=True, justify="left" if column == "line" else "right")
    for line in chosen:
        result = results[line.scenario.name]

        def both(number: Callable[[Sample], float | None], result: Result = result) -> str:
            return " / ".join(show_number(result.middle(name, number)) for name in result.samples)

        share = result.middle(OURS, lambda sample: sample.reader_cpu_share)
        busy = "*" if share is not None and share > table.BUSY_SHARE else ""
        values = [show_number(result.middle(name, lambda sample: sample.value)) for name in result.samples]
        shown.add_row(
            line.scenario.title + busy,
            *(values + [""] * 2)[:2],
            both(lambda sample: sample.cpu_us),
            both(lambda sample: sample.p50_ms),
            both(lambda sample: sample.p99_ms),
            f"{line.what} {table.show_ratios(line.figures(result))}",
            line.bound,
            "" if not line.bound else "PASS" if line.holds(result) else "FAIL",
        )
    return shown


def main() -> int:
    """Measure the lines that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help="all when none is named")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200)
    try:
        electric.install_once()
    except electric.ElectricUnavailableError as reason:
        console.print(f"Electric's server cannot be compared with: {reason}")
        return 2
    memory.allow_many_connections(30_000)
    chosen = [line for line in lines() if not options.names or line.scenario.name in options.names]
    results: dict[str, Result] = {}
    broken: set[str] = set()
    for line in chosen:
        name = line.scenario.name
        if name in results or name in broken:
            continue
        servers: dict[str, Start] = {OURS: durable_millstream}
        if not line.scenario.only_ours:
            servers[ELECTRIC] = electric.serving
        effort = replace(FULL, rounds=min(line.rounds, options.rounds))
        try:
            found = run(line.scenario, servers, effort, lambda _text: None)
            if found.samples.keys() != servers.keys():
                raise RuntimeError("Electric's server could not do it")  # noqa: TRY301  one exit for both
        except Exception as error:  # one broken line must not cost the others
            broken.add(name)
            console.print(f"{line.scenario.title}: FAIL, {type(error).__name__}: {error}", markup=False)
        else:
            results[name] = found
            console.print(f"{line.scenario.title}: {table.show_ratios(line.figures(results[name]))}")
    chosen = [line for line in chosen if line.scenario.name in results]
    about = machine.describe()
    console.print(show(chosen, results))
    console.print(", ".join(f"{name} {value}" for name, value in about.items()))
    path = RESULTS / f"peers-{datetime.datetime.now(datetime.UTC):%Y-%m-%d-%H%M%S}.json"
    table.save(path, about, FULL, list(results.values()))
    console.print(f"samples: {path}")
    return int(bool(broken) or not all(line.holds(results[line.scenario.name]) for line in chosen))


if __name__ == "__main__":
    sys.exit(main())
