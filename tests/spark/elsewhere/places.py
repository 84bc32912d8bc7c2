"""The job on a standalone cluster and on Spark Connect: everything arrives once, and the end arrives, too."""

import subprocess
import sys
from pathlib import Path

from millstream import stream
from running import Server, millstream
from spark.elsewhere.connect import connect_server
from spark.elsewhere.job import FIRST, MORE
from spark.sink.cluster import cluster

TESTS = Path(__file__).parents[2]
JOB_TIMEOUT_S = 500


def on_a_cluster(scratch: Path) -> str:
    """A master and two workers, with a driver beside them."""
    with millstream() as server, cluster(scratch / "cluster", workers=2) as nodes:
        return _run(server, scratch / "checkpoints", "--master", nodes.master)


def on_connect(scratch: Path) -> str:
    """A server that has the driver, and a client that has no JVM."""
    with millstream() as server, connect_server(scratch / "connect") as remote:
        return _run(server, scratch / "checkpoints", "--remote", remote)


def _run(server: Server, checkpoints: Path, *place: str) -> str:
    command = [sys.executable, "-m", "spark.elsewhere.job", server.url, "job", str(checkpoints), *place]
    done = subprocess.run(
        command, cwd=TESTS, capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-8000:]
    every = list(range(FIRST + MORE))
    assert _numbers(server, "batch") == every[:FIRST]
    assert sorted(_numbers(server, "streaming")) == every
    assert _numbers(server, "each-batch") == every
    assert _numbers(server, "ended", live=True) == every  # it returns: the stream has ended
    return f"{len(every)} rows, 0 lost, 0 doubled: batch, streaming over a restart, foreachBatch, to the end"


def _numbers(server: Server, name: str, *, live: bool = False) -> list[int]:
    with stream(f"{server.url}/job/{name}", live=live) as response:
        return [message["n"] for message in response.iter_json()]
