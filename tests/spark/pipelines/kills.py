"""`kill -9` of pipelines, their executors and their server, again and again, while they write.

A pipeline runs on a standalone cluster and is fed; its driver, one of its executors and the server are killed
in turn, at any moment. A driver that is gone is started again with the same command, as a user would. In the
end the streams are closed, the pipeline runs to its end, and other programs count what it wrote: DuckDB the
streams of `derive` and `dedup`, `deltalake` and `pyiceberg` with pandas the tables of `archive`.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import duckdb
import pandas
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from cli.commands import COMMAND, environment
from crash.processes import Client, free_port, serving
from crash.processes import kill as kill_server
from millstream import DurableStream
from spark.sink.cluster import Cluster, cluster

STREAMS = 3
ROWS = 600
"""Rows that are fed before each kill."""
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE_S = 300
PARTS = ("driver", "executor", "server")
_UNREACHABLE = 3


def kill_derive(scratch: Path, kills: int, seed: int = 0, *, progress: bool = False) -> str:
    """Kill a `derive` with windows, and count its results with DuckDB."""
    return _kill(_Windows(scratch), kills, seed, progress=progress)


def kill_dedup(scratch: Path, kills: int, seed: int = 0, *, progress: bool = False) -> str:
    """Kill a `dedup` of rows that are fed several times, and count its rows with DuckDB."""
    return _kill(_Unique(scratch), kills, seed, progress=progress)


def kill_wide(scratch: Path, kills: int, seed: int = 0, *, progress: bool = False) -> str:
    """Kill a `derive` whose every batch goes to many streams, and count their rows with DuckDB."""
    return _kill(_Wide(scratch), kills, seed, progress=progress)


def kill_archive(format: str, scratch: Path, kills: int, seed: int = 0, *, progress: bool = False) -> str:
    """Kill an `archive` to a Delta or Iceberg table, and count its rows with pandas."""
    return _kill(_Tables(scratch, format), kills, seed, progress=progress)


class _Job(ABC):
    """One pipeline, one checkpoint, and what must be there in the end."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.fed = 0

    @property
    @abstractmethod
    def name(self) -> str:
        """What is killed."""

    @property
    @abstractmethod
    def checkpoint(self) -> Path:
        """Where the pipeline keeps its progress."""

    @abstractmethod
    def command(self) -> list[str]:
        """Give the verb and its arguments."""

    @abstractmethod
    def verify(self, port: int) -> str:
        """Count what was written, and compare it with what was fed."""

    def feed(self, url: str) -> None:
        """Append rows to all streams, in the order of their times: one a second."""
        streams = _streams(url)
        for begin in range(self.fed, self.fed + ROWS, ROWS // 4):
            for number, stream in enumerate(streams):
                stream.append_all([_row(n) for n in range(begin, begin + ROWS // 4) if n % STREAMS == number])
        self.fed += ROWS


class _Windows(_Job):
    """Counts and sums of each minute."""

    @property
    def name(self) -> str:
        return "derive with windows"

    @property
    def checkpoint(self) -> Path:
        return self.scratch / "checkpoint"

    def command(self) -> list[str]:
        sql = (
            "select window.start as minute, count(*) as rows, sum(n) as total from input "
            "group by window(at, '1 minute')"
        )
        return [
            *("derive", "in/*", "sums", "--sql", sql, "--schema", "n long, at timestamp"),
            *("--event-time", "at", "--watermark", "15 minutes", "--checkpoint", str(self.checkpoint)),
        ]

    def verify(self, port: int) -> str:
        client = Client(port)
        status, body, is_closed = client.read_all("/sums")
        client.close()
        assert (status, is_closed) == (200, True)
        body = body.replace(b"][", b",")  # the answers to several reads, one after the other
        (self.scratch / "sums.json").write_bytes(body)
        with duckdb.connect() as database:
            database.execute(f"create table sums as select * from read_json('{self.scratch / 'sums.json'}')")
            database.execute(
                f"create table wanted as select n // 60 as minute, count(*) as rows, sum(n) as total "
                f"from range({self.fed}) numbers(n) group by 1"
            )
            minute = f"date_diff('minute', timestamp '{BEGUN:%Y-%m-%d %H:%M}', minute::timestamp)"
            [(windows, distinct, rows)] = database.execute(
                "select count(*), count(distinct minute), sum(rows) from sums"
            ).fetchall()
            [(wrong,)] = database.execute(
                f"select count(*) from (select {minute} as minute, rows, total from sums) found "
                "full join wanted using (minute) "
                "where found.rows is distinct from wanted.rows or found.total is distinct from wanted.total"
            ).fetchall()
        assert (windows - distinct, wrong, rows) == (0, 0, self.fed), (
            f"{windows} windows of {distinct} minutes with {rows} of {self.fed} rows, {wrong} of them wrong"
        )
        return f"{rows} rows in {windows} windows, 0 lost, 0 doubled (DuckDB)"


class _Copies(_Job):
    """The rows themselves, in streams."""

    @property
    def checkpoint(self) -> Path:
        return self.scratch / "checkpoint"

    @abstractmethod
    def outputs(self, client: Client) -> list[str]:
        """Name the streams that were written."""

    def verify(self, port: int) -> str:
        client = Client(port)
        outputs = self.outputs(client)
        folder = self.scratch / "copies"
        folder.mkdir()
        for number, name in enumerate(outputs):
            status, body, _ = client.read_all(name)
            assert status == 200
            (folder / f"{number}.json").write_bytes(body.replace(b"][", b","))
        client.close()
        with duckdb.connect() as database:
            [(rows, distinct, others)] = database.execute(
                f"select count(*), count(distinct n), count(*) filter (where n < 0 or n >= {self.fed}) "
                f"from read_json('{folder}/*.json')"
            ).fetchall()
        assert (rows, distinct, others) == (self.fed, self.fed, 0), (
            f"{self.fed - distinct} lost, {rows - distinct} doubled of {self.fed}, {others} from nowhere"
        )
        return f"{rows} rows in {len(outputs)} streams, 0 lost, 0 doubled (DuckDB)"


class _Unique(_Copies):
    """Each row once, although many are fed again."""

    @property
    def name(self) -> str:
        return "dedup"

    def command(self) -> list[str]:
        return [
            *("dedup", "in/*", "unique", "--key", "n", "--schema", "n long, at timestamp"),
            *("--checkpoint", str(self.checkpoint)),
        ]

    def feed(self, url: str) -> None:
        super().feed(url)
        chance = random.Random(self.fed)
        again = [_row(chance.randrange(self.fed)) for _ in range(ROWS // 2)]
        chance.choice(_streams(url)).append_all(again)

    def outputs(self, _: Client) -> list[str]:
        return ["/unique"]


class _Wide(_Copies):
    """Each row in one of 200 streams, which are others after every few kills."""

    @property
    def name(self) -> str:
        return "derive to many streams"

    def command(self) -> list[str]:
        sql = f"select n, at, concat('wide/', n div {4 * ROWS}, '-', n % 200) as stream from input"
        return [
            *("derive", "in/*", "--sql", sql, "--schema", "n long, at timestamp"),
            *("--checkpoint", str(self.checkpoint)),
        ]

    def outputs(self, client: Client) -> list[str]:
        names: list[str] = []
        cursor = ""
        while cursor is not None:
            answer = client.request("GET", f"/__ds/streams?prefix=/wide/&limit=1000&cursor={quote(cursor)}")
            assert answer is not None
            page = json.loads(answer[2])
            names += [one["path"] for one in page["streams"]]
            cursor = page["cursor"]
        return names


class _Tables(_Job):
    """The rows themselves, in a table whose files are merged on the way."""

    def __init__(self, scratch: Path, format: str) -> None:
        super().__init__(scratch)
        self._format = format
        self._table = scratch / "table"

    @property
    def name(self) -> str:
        return f"archive to {self._format}"

    @property
    def checkpoint(self) -> Path:
        return self._table / "_checkpoint"

    def command(self) -> list[str]:
        return [
            *("archive", "in/*", str(self._table), "--format", self._format),
            *("--schema", "n long, at timestamp", "--event-time", "at", "--compact-files", "4"),
        ]

    def verify(self, port: int) -> str:
        counts = self._read()["n"].value_counts()
        lost, doubled = self.fed - len(counts), int((counts - 1).sum())
        assert (lost, doubled) == (0, 0), f"{lost} lost, {doubled} doubled of {self.fed}"
        assert set(counts.index) == set(range(self.fed))
        return f"{self.fed} rows, 0 lost, 0 doubled (pandas)"

    def _read(self) -> pandas.DataFrame:
        if self._format == "delta":
            return DeltaTable(self._table).to_pandas()
        return StaticTable.from_metadata(str(self._table)).scan().to_pandas()


class _Driver:
    """The command as a process of its own, started again where it is gone."""

    def __init__(self, job: _Job, url: str, master: str) -> None:
        self._job = job
        self._log = job.scratch / "driver.log"
        self._environment = environment(MILLSTREAM_URL=url)
        self._master = master
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self) -> None:
        """Start it where it does not run; a server that was gone may have ended it."""
        if self._process is not None and (code := self._process.poll()) is not None:
            assert code in (_UNREACHABLE, -signal.SIGKILL), f"it left with {code}\n{self._printed()}"
            self._process = None
        if self._process is None:
            self._process = self._start("--every", "0 seconds")

    def kill(self) -> None:
        """Kill it with its JVM and its Python workers."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait_for_batch(self) -> None:
        """Wait until another batch is done, or the driver is gone."""
        before = self._batches()
        self._wait(lambda: self._batches() > before)

    def finish(self) -> None:
        """Run it to the end of the streams."""
        self.kill()
        self._process = self._start("--until-closed")
        code = self._process.wait(PATIENCE_S)
        assert code == 0, f"it left with {code}\n{self._printed()}"

    def _start(self, *pace: str) -> subprocess.Popen[bytes]:
        settings = {
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
            "spark.sql.shuffle.partitions": "2",
        }
        command = [*COMMAND, "pipeline", *self._job.command(), *pace, "--master", self._master]
        command += ["--input-option", f"maxRowsPerTrigger={ROWS // 3}"]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self._job.scratch,
                start_new_session=True,
            )

    def _batches(self) -> int:
        folder = self._job.checkpoint / "commits"
        done = (int(file.name) for file in folder.glob("*") if file.name.isdigit())
        return max(done, default=-1)

    def _wait(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            if self._process is None or self._process.poll() is not None:
                return
            assert time.monotonic() < deadline, f"nothing happened for {PATIENCE_S} s\n{self._printed()}"
            time.sleep(0.05)

    def _printed(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


class _Served:
    """A server that comes back at the same address after it was killed."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._running = ExitStack()
        self.start()

    def start(self) -> None:
        self._server = self._running.enter_context(serving(self._folder, self.port))

    def kill(self) -> None:
        kill_server(self._server)
        self._running.close()


def _kill(job: _Job, kills: int, seed: int, *, progress: bool) -> str:
    chance = random.Random(seed)
    done = dict.fromkeys(PARTS, 0)
    with cluster(job.scratch / "cluster", workers=2) as nodes:
        served = _Served(job.scratch / "data")
        for stream in _streams(served.url):
            DurableStream.create(stream.url, content_type="application/json")
        driver = _Driver(job, served.url, nodes.master)
        try:
            for part in itertools.islice(itertools.cycle(PARTS), kills):
                job.feed(served.url)
                driver.ensure()
                driver.wait_for_batch()
                time.sleep(chance.uniform(0, 2))
                _kill_part(part, driver, served, nodes, chance)
                done[part] += 1
                if progress:
                    print(f"  {sum(done.values())} kills, {job.fed} rows", flush=True)
            for stream in _streams(served.url):
                stream.close()
            driver.finish()
            summary = job.verify(served.port)
        finally:
            driver.kill()
            served.kill()
    parts = ", ".join(f"{number} of the {part}" for part, number in done.items())
    return f"{job.name}, {sum(done.values())} kills ({parts}): {summary}"


def _kill_part(part: str, driver: _Driver, served: _Served, nodes: Cluster, chance: random.Random) -> None:
    if part == "driver":
        driver.kill()
    elif part == "executor":
        _kill_executor(nodes, chance)
    else:
        served.kill()
        time.sleep(chance.uniform(0, 2))
        served.start()


def _kill_executor(nodes: Cluster, chance: random.Random) -> None:
    while not (executors := nodes.executors()):  # one that was killed is being replaced
        time.sleep(0.1)
    with suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(chance.choice(executors), signal.SIGKILL)


def _streams(url: str) -> list[DurableStream]:
    return [DurableStream(f"{url}/in/{number}") for number in range(STREAMS)]


def _row(n: int) -> dict[str, object]:
    return {"n": n, "at": (BEGUN + timedelta(seconds=n)).isoformat()}
