"""`python -m bench.unit_costs`: what servers over PostgreSQL spend on each append, read and delivery.

Processor time of a server and of its database, bytes of write-ahead log and of tables: the figures that
`millstream capacity` multiplies. They are times of processes and not of clocks, so that a busy machine
matters little; of several rounds the least counts.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from bench import load, machine
from bench.cpu import cpu_seconds
from bench.crowd import crowd
from bench.load import Load
from bench.postgres import MANY, TEXT, clusters, console
from tests.running import millstream

PAYLOAD_BYTES = 100  # on average


class Costs:
    """A server and a database, and what they have used."""

    def __init__(self, url: str, pid: int, cluster: Any) -> None:
        self.url = url
        self._pid = pid
        self._cluster = cluster

    def _used(self) -> tuple[float, float, int, int]:
        postmaster = self._cluster._process.pid
        backends = sum(cpu_seconds(pid) or 0.0 for pid in clusters._children(postmaster))
        database_s = backends + _with_ended_s(postmaster)
        wal = self._cluster.query("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")[0][0]
        sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'"
        return cpu_seconds(self._pid) or 0.0, database_s, wal, self._cluster.query(sql)[0][0]

    def of(self, what: str, work: Callable[[], float], rounds: int) -> None:
        """Print what each unit of some work takes."""
        found = []
        for _ in range(rounds):
            before = self._used()
            units = work()
            time.sleep(0.6)  # statistics of the database are late
            after = self._used()
            found.append([(new - old) / units for old, new in zip(before, after, strict=True)])
        server_s, database_s, wal, commits = map(min, zip(*found, strict=True))
        console.print(
            f"{what}: server {server_s * 1e6:.1f} us, database {database_s * 1e6:.1f} us, "
            f"log {wal:.0f} bytes, {commits:.3f} transactions",
            markup=False,
        )


def main(
    rounds: Annotated[int, typer.Option(min=1, help="The least of so many counts.")] = 2,
    seconds: Annotated[float, typer.Option(min=1, help="How long each takes.")] = 2.0,
) -> None:
    """Measure."""
    cluster = clusters.Cluster(clusters.new_folder())
    try:
        schema = cluster.new_schema()
        with millstream("--store", cluster.url(schema)) as server, httpx.Client(timeout=60) as client:
            costs = Costs(server.url, server.pid, cluster)

            def append(writers: int, streams: int) -> Callable[[], float]:
                path = f"{server.url}/append/{writers}-{streams}"
                for name in [path] if streams == 1 else [f"{path}/{number}" for number in range(streams)]:
                    client.put(name, headers=TEXT).raise_for_status()
                return lambda: load.apply(Load(path, "POST", writers, 80, 120, streams), seconds).requests

            for writers, streams in ((1, 1), (MANY, 1), (MANY, MANY), (MANY, 1000)):
                costs.of(f"append, {writers} writers, {streams} streams", append(writers, streams), rounds)
            with millstream("--store", cluster.url(schema)) as other:
                hearing, work = Costs(server.url, other.pid, cluster), append(MANY, MANY)
                hearing.of("append elsewhere, of which a server hears", work, rounds)

                def follow() -> float:
                    path = f"/followed/{time.monotonic_ns()}"
                    client.put(server.url + path, headers=TEXT).raise_for_status()
                    with crowd(other.url + path, 1, "sse", server.url + path) as readers:
                        return readers.obey(f"paced 100 {seconds}").delivered

                hearing.of("append elsewhere, which a reader follows", follow, rounds)
            time.sleep(3)  # rows are merged
            _print_sizes(cluster, schema)
            content = b"x" * 2**20
            client.put(f"{server.url}/large", headers=TEXT).raise_for_status()
            for _ in range(128):  # more than a server holds
                client.post(f"{server.url}/large", content=content, headers=TEXT).raise_for_status()

            def catch_up() -> float:
                offset, got = "-1", 0
                while True:
                    answer = client.get(f"{server.url}/large", params={"offset": offset})
                    got += len(answer.raise_for_status().content)
                    offset = answer.headers["stream-next-offset"]
                    if answer.headers.get("stream-up-to-date"):
                        return got / 2**20

            costs.of("catch-up, each MiB", catch_up, rounds)
            client.put(f"{server.url}/small", headers=TEXT, content=b"x" * 1024).raise_for_status()
            read = Load(f"{server.url}/small?offset=-1", "GET", MANY)
            costs.of("read of 1 KiB", lambda: load.apply(read, seconds).requests, rounds)

            for mode in ("sse", "long-poll"):

                def deliver(mode: str = mode) -> float:
                    path = f"{server.url}/live/{mode}-{time.monotonic_ns()}"
                    client.put(path, headers=TEXT).raise_for_status()
                    with crowd(path, 500, mode) as readers:
                        return readers.obey(f"paced 10 {seconds}").delivered

                costs.of(f"delivery to a reader, {mode}", deliver, rounds)
    finally:
        clusters.remove(cluster)
    console.print(", ".join(f"{name} {value}" for name, value in machine.describe().items()))


def _print_sizes(cluster: Any, schema: str) -> None:
    cluster.execute(f"VACUUM {schema}.stream_rows;")
    sql = f"""
        SELECT (SELECT sum(length(data) + length(index)) FROM {schema}.stream_rows),
            (SELECT sum(length(data)) FROM {schema}.stream_rows), (SELECT sum(appends) FROM {schema}.streams),
            pg_total_relation_size('{schema}.stream_rows'), (SELECT count(*) FROM {schema}.stream_rows),
            pg_total_relation_size('{schema}.streams'), (SELECT count(*) FROM {schema}.streams)
    """
    kept, content, appends, size, rows, streams_size, streams = cluster.query(sql)[0]
    console.print(
        f"content: {content / appends:.0f} bytes an append, {kept / appends:.0f} with its index, "
        f"{size / appends:.0f} on the disk, {appends / rows:.0f} appends in a row; "
        f"a stream: {streams_size / streams:.0f} bytes"
    )


def _with_ended_s(pid: int) -> float:
    """Processor time of a process and of those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    typer.run(main)
