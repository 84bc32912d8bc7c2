"""Servers over PostgreSQL beside the log and the reference server's files, and whether each bound holds.

        python -m bench.postgres
        python -m bench.postgres --rounds 1 --seconds 2 --streams 1
        python -m bench.postgres --no-rates

The database is one of its own with its default durability, on this machine, so it shares the processors with
the servers and with those who send. Everybody has a turn in each round. A bound is met if the median of its
rounds meets it; the exit code is 1 when one is not.

The time from an append on one server to a reader of another one is taken from the sending of the append, so
the commit is in it.
"""

import importlib
import statistics
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Final

import httpx
import typer
from rich.console import Console
from rich.table import Table

from bench import load, machine, reference
from bench.crowd import crowd
from bench.load import Load
from bench.table import show_ratios
from tests.node import NodeUnavailableError
from tests.running import durable_millstream, millstream

STREAMS: Final = (1, 64, 1000)
MANY: Final = 64
WRITERS: Final = (1, MANY)
ONE, THREE, LOG, REFERENCE = "PostgreSQL, 1 server", "PostgreSQL, 3 servers", "log", "reference, files"

TO_REFERENCE: Final = 10.0
TO_ONE_WRITER: Final = 8.0
THREE_TO_ONE: Final = 0.5
MOST_P99_MS: Final = 50.0

LIVE_RATES: Final = (50, 500)
"""How many appends a second live readers of another server follow."""

TEXT = {"content-type": "text/plain"}

Rates = dict[str, dict[tuple[int, int], list[float]]]
"""By who and by streams and writers: one for each round."""

console = Console(width=None if sys.stdout.isatty() else 120)

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # where modules of tests find each other
clusters = importlib.import_module("postgres.cluster")


@contextmanager
def over_postgres(url: str, count: int) -> Iterator[list[str]]:
    """Servers over one database, as their URLs."""
    with ExitStack() as ending:
        yield [ending.enter_context(millstream("--store", url)).url for _ in range(count)]


@contextmanager
def one_log() -> Iterator[list[str]]:
    """Our server with its log."""
    with durable_millstream() as server:
        yield [server.url]


@contextmanager
def reference_files() -> Iterator[list[str]]:
    """The reference server with its files."""
    with reference.in_files() as server:
        yield [server.url]


def measure(urls: list[str], streams: int, writers: int, seconds: float, path: str) -> tuple[float, int]:
    """Append through all servers at once: how many a second were acknowledged, and how many refused."""
    with httpx.Client(timeout=30) as client:
        names = [path] if streams == 1 else [f"{path}/{number}" for number in range(streams)]
        for name in names:
            client.put(urls[0] + name, headers=TEXT).raise_for_status()
    rates: list[float] = []
    refused: list[int] = []
    used = urls[:writers]

    def send(url: str, share: int) -> None:
        # The reference refuses some when its disk is slow: that is its affair, and costs it its rate.
        report = load.attempt(Load(url + path, "POST", share, 80, 120, streams), seconds)
        refused.append(report.errors)
        rates.append((report.requests - report.errors) / report.seconds)

    shares = [len(range(place, writers, len(used))) for place in range(len(used))]
    senders = [threading.Thread(target=send, args=pair) for pair in zip(used, shares, strict=True)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    if len(rates) < len(used):
        raise RuntimeError("a load failed; its error is above")
    return sum(rates), sum(refused)


def measure_all(contenders: dict[str, list[str]], chosen: list[int], rounds: int, seconds: float) -> Rates:
    """Let everybody have a turn in each round."""
    rates: Rates = {name: {} for name in contenders}
    for turn in range(rounds):
        for streams in chosen:
            for writers in WRITERS:
                for name, urls in contenders.items():
                    path = f"/bench/{streams}-{writers}-{turn}"
                    found, refused = measure(urls, streams, writers, seconds, path)
                    if refused and name != REFERENCE:
                        raise RuntimeError(f"{name} refused {refused} appends")
                    rates[name].setdefault((streams, writers), []).append(found)
    return rates


def show_rates(rates: Rates) -> Table:
    """One row for each number of streams and of writers."""
    table = Table(title="acknowledged appends of 80 to 120 bytes, per second")
    table.add_column("streams, writers")
    for name in rates:
        table.add_column(name, justify="right")
    for case in next(iter(rates.values())):
        medians = [f"{statistics.median(found[case]):,.0f}" for found in rates.values()]
        table.add_row("{}, {}".format(*case), *medians)
    return table


class Verdicts:
    """The bounds, and which are met."""

    def __init__(self) -> None:
        self.are_met = True

    def add(self, what: str, ratios: list[float], bound: str, holds: bool) -> None:
        """Print one."""
        self.are_met &= holds
        console.print(f"{'PASS' if holds else 'FAIL'}  {what}: {show_ratios(ratios)}, {bound}", markup=False)

    def at_least(self, what: str, ratios: list[float], least: float) -> None:
        """Print whether the median reaches a bound."""
        self.add(what, ratios, f"at least {least:g}", statistics.median(ratios) >= least)


def judge(rates: Rates, verdicts: Verdicts) -> None:
    """Compare rates with what the store promises."""

    def ratios(over: str, streams: int, writers: int, under: str, other_writers: int) -> list[float]:
        pairs = zip(rates[over][streams, writers], rates[under][streams, other_writers], strict=True)
        return [one / other for one, other in pairs]

    for streams in sorted({streams for streams, _ in rates[ONE]}):
        about = f"{streams} stream{'s' * (streams > 1)}"
        if REFERENCE in rates:
            found = ratios(ONE, streams, MANY, REFERENCE, MANY)
            verdicts.at_least(f"{about}, {MANY} writers: to the reference", found, TO_REFERENCE)
        found = ratios(ONE, streams, MANY, ONE, 1)
        verdicts.at_least(f"{about}: {MANY} writers to one", found, TO_ONE_WRITER)
        if streams == 1:
            found = ratios(THREE, streams, MANY, ONE, MANY)
            verdicts.at_least(f"{about}, {MANY} writers: three servers to one", found, THREE_TO_ONE)


def follow(writer: str, reader: str, verdicts: Verdicts, seconds: float) -> None:
    """Append on one server, read live on another one."""
    for mode in ("sse", "long-poll"):
        for rate in LIVE_RATES:
            path = f"/live/{mode}-{rate}"
            httpx.put(writer + path, headers=TEXT).raise_for_status()
            with crowd(reader + path, 1, mode, writer + path) as readers:
                report = readers.obey(f"paced {rate} {seconds}")
            what = f"append on A to {mode} reader on B, {rate} a second: p50 {report.p50_ms:.1f} ms, p99 ms"
            verdicts.add(
                what, [report.p99_ms], f"at most {MOST_P99_MS:g}", holds=report.p99_ms <= MOST_P99_MS
            )


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often everybody has a turn.")] = 3,
    seconds: Annotated[float, typer.Option(min=1, help="How long a turn takes.")] = 3.0,
    streams: Annotated[list[int] | None, typer.Option(min=1, help="How many streams; 1, 64, 1000.")] = None,
    rates: Annotated[bool, typer.Option(help="Whether rates are measured.")] = True,
    live: Annotated[bool, typer.Option(help="Whether readers of another server are measured.")] = True,
) -> None:
    """Measure, and say which bounds hold."""
    cluster = clusters.Cluster(clusters.new_folder())

    def new_url() -> str:
        return str(cluster.url(cluster.new_schema()))

    verdicts = Verdicts()
    try:
        with ExitStack() as ending:
            contenders = {THREE: ending.enter_context(over_postgres(new_url(), 3))}
            if rates:
                contenders |= {
                    ONE: ending.enter_context(over_postgres(new_url(), 1)),
                    LOG: ending.enter_context(one_log()),
                }
                try:
                    reference.install_once()
                    contenders[REFERENCE] = ending.enter_context(reference_files())
                except NodeUnavailableError as reason:
                    console.print(f"[yellow]without the reference server: {reason}")
                found = measure_all(contenders, streams or list(STREAMS), rounds, seconds)
                console.print(show_rates(found))
                judge(found, verdicts)
            if live:
                first, second, _ = contenders[THREE]
                follow(first, second, verdicts, 4 * seconds)
    finally:
        clusters.remove(cluster)
    console.print(", ".join(f"{name} {value}" for name, value in machine.describe().items()))
    if not verdicts.are_met:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
