"""`kill -9` of drivers, executors and pipelines in the middle of batches, again and again.

Every run copies more rows from one stream to another, with other partitions and another order than
the run before. In the end the output holds each row once: measured on the output stream itself.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.commands import COMMAND
from millstream import DurableStream, stream
from millstream.spark.lookups import Found
from millstream.spark.lookups import Server as Lookups
from millstream.spark.options import source_options
from running import Server, durable_millstream
from spark.sink.cluster import Cluster, cluster

TESTS = Path(__file__).parents[2]
FOLDER = "kills"
ROWS = 800
LOCAL_WITH_RETRIES = "local[2,4]"
STREAMS = 1500
"""Of wide output: more than a run has rows, so that each run writes streams that are new."""
RUN_TIMEOUT_S = 300


def kill_drivers(scratch: Path, kills: int, seed: int = 0, *, progress: bool = False) -> str:
    """Kill the whole driver, its JVM included, so many times; tasks fail and are repeated meanwhile."""
    with durable_millstream() as server:
        copying = _Copying(server, scratch, master=LOCAL_WITH_RETRIES, faulty=True)
        _kill_copying(copying, kills, seed, progress=progress)
        return f"{kills} kills of the driver: {copying.verify()}"


def kill_executors(scratch: Path, kills: int, seed: int = 0, *, progress: bool = False) -> str:
    """Kill executors of a standalone cluster; their driver lives on, and repeats their tasks."""
    with durable_millstream() as server, cluster(scratch / "cluster", workers=2) as nodes:
        copying = _Copying(server, scratch, master=nodes.master, faulty=True)
        chance = random.Random(seed)
        killed = 0
        for _ in range(kills):
            if killed >= kills:
                break
            copying.feed()
            with copying.running(seed=killed) as driver:
                while copying.sees_progress(driver) and killed < kills:
                    time.sleep(chance.uniform(0, 1.5))
                    killed += _kill_one_executor(nodes, chance)
                    if progress:
                        print(f"  {killed} kills, {copying.tail()} of {copying.fed} rows", flush=True)
                copying.end(driver)
        assert killed >= kills, f"only {killed} executors could be killed in {kills} runs"
        return f"{killed} kills of executors: {copying.verify()}"


def kill_replay(scratch: Path, kills: int, seed: int = 0, *, progress: bool = False) -> str:
    """Kill `millstream pipeline replay`, which reads one file after the other."""
    with durable_millstream() as server:
        copying = _Replaying(server, scratch)
        _kill_copying(copying, kills, seed, progress=progress)
        return f"{kills} kills of replay: {copying.verify()}"


def kill_wide(scratch: Path, kills: int, seed: int = 0, *, progress: bool = False) -> str:
    """Kill drivers whose every batch goes to many streams, some of which are new."""
    with durable_millstream() as server:
        copying = _Wide(server, scratch)
        _kill_copying(copying, kills, seed, progress=progress)
        return f"{kills} kills with wide output: {copying.verify()}"


class _Copying:
    """One input, one output, one checkpoint, and many runs of a query between them."""

    def __init__(
        self, server: Server, scratch: Path, *, master: str | None = None, faulty: bool = False
    ) -> None:
        self._url = server.url
        self._checkpoint = scratch / "checkpoint"
        self._table = scratch / "table"
        self._log = scratch / "driver.log"
        self._arguments = (["--master", master] if master else []) + (["--faulty"] if faulty else [])
        self._input = self._create("in")
        self._output = self._create("out")
        self.fed = 0

    def feed(self) -> None:
        """Give the next run something to do."""
        self._input.append_all([{"n": n} for n in range(self.fed, self.fed + ROWS)])
        self.fed += ROWS

    @contextmanager
    def running(self, seed: int) -> Iterator[subprocess.Popen[bytes]]:
        """Start a driver in a session of its own; whatever is left of it ends with the block."""
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        with self._log.open("ab") as log:
            driver = subprocess.Popen(
                self._command(seed),
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
            try:
                yield driver
            finally:
                _kill_group(driver)

    def _command(self, seed: int) -> list[str]:
        command = [sys.executable, "-m", "spark.sink.driver", self._url, FOLDER, str(self._checkpoint)]
        return [*command, "--seed", str(seed), *self._arguments]

    def sees_progress(self, driver: subprocess.Popen[bytes]) -> bool:
        """Wait until another batch is in the output; False when the driver has ended instead."""
        before = self._reached()
        return self._wait(lambda: self._reached() != before, driver)

    def _reached(self) -> object:
        return self._output.head().offset

    def end(self, driver: subprocess.Popen[bytes]) -> None:
        """Let a driver come to its end."""
        self._wait(lambda: False, driver)
        if driver.returncode != 0:
            raise AssertionError(f"the driver left with {driver.returncode}:\n{self._printed()}")

    def finish(self, seed: int) -> None:
        """Run without being killed until everything is there."""
        with self.running(seed) as driver:
            self.end(driver)

    def tail(self) -> int:
        """Count the rows in the output."""
        return len(self._numbers())

    def verify(self) -> str:
        """Compare the output with the input."""
        found = Counter(self._numbers())
        lost = self.fed - len(found)
        doubled = sum(found.values()) - len(found)
        assert (lost, doubled) == (0, 0), f"{lost} lost, {doubled} doubled of {self.fed}\n{self._printed()}"
        assert set(found) == set(range(self.fed))
        return f"{self.fed} rows, 0 lost, 0 doubled"

    def _wait(self, happened: Callable[[], bool], driver: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while not happened():
            if driver.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise AssertionError(f"nothing happened for {RUN_TIMEOUT_S} s:\n{self._printed()}")
            time.sleep(0.05)
        return True

    def _numbers(self) -> list[int]:
        with stream(self._output.url, live=False) as response:
            return [message["n"] for message in response.iter_json()]

    def _create(self, name: str) -> DurableStream:
        return DurableStream.create(f"{self._url}/{FOLDER}/{name}", content_type="application/json")

    def _printed(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


class _Wide(_Copying):
    """The rows go to many streams, of which every run adds some."""

    def _command(self, seed: int) -> list[str]:
        return [*super()._command(seed), "--streams", str(STREAMS)]

    def _found(self) -> dict[str, Found]:
        return Lookups(source_options({"url": self._url, "pattern": "*"})).matching(f"{FOLDER}/wide/*")

    def _reached(self) -> object:
        return self._found()

    def _numbers(self) -> list[int]:
        numbers = []
        for name in self._found():
            with stream(f"{self._url}/{name}", live=False) as response:
                found = [message["n"] for message in response.iter_json()]
            assert {n % STREAMS for n in found} <= {int(name.rpartition("/")[2])}
            numbers += found
        return numbers


class _Replaying(_Copying):
    """The rows are in files."""

    FILES = 4

    def feed(self) -> None:
        self._table.mkdir(exist_ok=True)
        for _ in range(self.FILES):
            end = self.fed + ROWS // self.FILES
            file = self._table / f"{end}.json"
            file.write_text("".join(f'{{"n": {n}}}\n' for n in range(self.fed, end)))
            os.utime(file, (1_700_000_000 + end, 1_700_000_000 + end))  # Spark takes the oldest first
            self.fed = end

    def _command(self, seed: int) -> list[str]:
        return [
            *(*COMMAND, "pipeline", "replay", str(self._table), f"{FOLDER}/out", "--url", self._url),
            *("--format", "json", "--schema", "n long", "--order-by", "n"),
            *("--input-option", "maxFilesPerTrigger=1", "--dead-letters", f"{FOLDER}/bad"),
            *("--checkpoint", str(self._checkpoint), "--master", "local[2]"),
            *("--conf", "spark.driver.memory=512m"),
        ]


def _kill_copying(copying: _Copying, kills: int, seed: int, *, progress: bool) -> None:
    chance = random.Random(seed)
    for number in range(kills):
        copying.feed()
        with copying.running(seed=number) as driver:
            if copying.sees_progress(driver):
                time.sleep(chance.uniform(0, 2))
            _kill_group(driver)
        if progress:
            print(f"  {number + 1} kills, {copying.tail()} of {copying.fed} rows", flush=True)
    copying.finish(seed=kills)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _kill_one_executor(nodes: Cluster, chance: random.Random) -> int:
    executors = nodes.executors()
    if not executors:
        return 0
    try:
        os.kill(chance.choice(executors), signal.SIGKILL)
    except ProcessLookupError:  # it has just ended by itself
        return 0
    return 1
