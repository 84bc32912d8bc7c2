"""`python -m bench.postgres`: servers over PostgreSQL beside the log and the reference server's files.

The database is one of its own with its default durability, on this machine. Rates are medians of rounds in
which everybody has a turn. With three servers, as many generators send to one server each.

        python -m bench.postgres --rounds 3 --seconds 3
"""

import importlib
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.table import Table

from bench import load, reference
from bench.load import Load
from tests.node import NodeUnavailableError
from tests.running import durable_millstream, millstream

STREAMS = (1, 64, 1000)
WRITERS = (1, 64)
TEXT = {"content-type": "text/plain"}


console = Console(width=110)

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


def measure(urls: list[str], streams: int, writers: int, seconds: float, path: str) -> float:
    """Append through all servers at once, and give how many a second were acknowledged."""
    with httpx.Client(timeout=30) as client:
        names = [path] if streams == 1 else [f"{path}/{number}" for number in range(streams)]
        for name in names:
            client.put(urls[0] + name, headers=TEXT).raise_for_status()
    rates: list[float] = []

    def send(url: str) -> None:
        share = max(1, writers // len(urls))
        report = load.apply(Load(url + path, "POST", share, 80, 120, streams), seconds)
        rates.append(report.requests / report.seconds)

    senders = [threading.Thread(target=send, args=(url,)) for url in (urls if writers > 1 else urls[:1])]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    return sum(rates)


def latency(writer: str, reader: str, count: int) -> tuple[float, float]:
    """Append on one server, read live on another: the median and the 99th percentile, in milliseconds."""
    took: list[float] = []
    with httpx.Client(timeout=30) as client, httpx.Client(timeout=30) as other:
        client.put(f"{writer}/latency", headers=TEXT).raise_for_status()
        with other.stream("GET", f"{reader}/latency", params={"offset": "-1", "live": "sse"}) as stream:
            lines = stream.iter_lines()
            for number in range(count):
                begun_s = time.monotonic()
                client.post(f"{writer}/latency", content=b"<%d>" % number, headers=TEXT).raise_for_status()
                while f"<{number}>" not in next(lines):
                    pass
                took.append((time.monotonic() - begun_s) * 1000)
                time.sleep(0.005)
    return statistics.median(took), statistics.quantiles(took, n=100)[98]


def main(
    rounds: Annotated[int, typer.Option(help="How often everybody has a turn.")] = 3,
    seconds: Annotated[float, typer.Option(help="How long a turn takes.")] = 3.0,
) -> None:
    """Measure, and print a table."""
    cluster = clusters.Cluster(clusters.new_folder())

    def new_url() -> str:
        return str(cluster.url(cluster.new_schema()))

    try:
        with ExitStack() as ending:
            contenders = {
                "PostgreSQL, 1 server": ending.enter_context(over_postgres(new_url(), 1)),
                "PostgreSQL, 3 servers": ending.enter_context(over_postgres(new_url(), 3)),
                "log": ending.enter_context(one_log()),
            }
            try:
                reference.install_once()
                contenders["reference, files"] = ending.enter_context(reference_files())
            except NodeUnavailableError as reason:
                console.print(f"[yellow]without the reference server: {reason}")
            _print(contenders, rounds, seconds)
            first, second, _ = contenders["PostgreSQL, 3 servers"]
            p50_ms, p99_ms = latency(first, second, 300)
            console.print(
                f"append on one server to read on another: p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms"
            )
    finally:
        clusters.remove(cluster)


def _print(contenders: dict[str, list[str]], rounds: int, seconds: float) -> None:
    table = Table(title="acknowledged appends of 80 to 120 bytes, per second")
    table.add_column("streams, writers")
    for name in contenders:
        table.add_column(name, justify="right")
    for streams in STREAMS:
        for writers in WRITERS:
            rates: dict[str, list[float]] = {name: [] for name in contenders}
            for turn in range(rounds):
                for name, urls in contenders.items():
                    path = f"/bench/{streams}-{writers}-{turn}"
                    rates[name].append(measure(urls, streams, writers, seconds, path))
            medians = [f"{statistics.median(found):,.0f}" for found in rates.values()]
            table.add_row(f"{streams}, {writers}", *medians)
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
