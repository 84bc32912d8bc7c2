"""The job on a standalone cluster and on Spark Connect: everything arrives once, and the end arrives, too.

On Connect the pipelines as well, if wanted, one after the other: each reads what the one before it wrote.
"""

import subprocess
import sys
from pathlib import Path

from cli.commands import COMMAND, environment
from millstream import stream
from running import Server, millstream
from spark.elsewhere.connect import connect_server
from spark.elsewhere.job import FIRST, MORE
from spark.sink.cluster import cluster

TESTS = Path(__file__).parents[2]
JOB_TIMEOUT_S = 500
PIPELINE_TIMEOUT_S = 150


def on_a_cluster(scratch: Path) -> str:
    """A master and two workers, with a driver beside them."""
    with millstream() as server, cluster(scratch / "cluster", workers=2) as nodes:
        return _run(server, scratch / "checkpoints", "--master", nodes.master)


def on_connect(scratch: Path, *, with_pipelines: bool) -> str:
    """A server that has the driver, and a client that has no JVM."""
    with millstream() as server, connect_server(scratch / "connect") as remote:
        result = _run(server, scratch / "checkpoints", "--remote", remote)
        if with_pipelines:
            _check_pipelines(server, scratch, remote)
            result += ", archive, replay, derive, profile"
        return result


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


def _check_pipelines(server: Server, scratch: Path, remote: str) -> None:
    every, table = list(range(FIRST + MORE)), str(scratch / "table")
    schema = ("--schema", "n long")
    _pipeline(server, scratch, remote, "archive", "job/ended", table, *schema, "--until-closed")
    _pipeline(
        server, scratch, remote, "replay", table, "job/again", "--columns", "n", "--order-by", "n", "--close"
    )
    assert _numbers(server, "again", live=True) == every
    doubled = ("--sql", "select 2 * n as n from input")
    _pipeline(
        server, scratch, remote, "derive", "job/again", "job/doubled", *schema, *doubled, "--until-closed"
    )
    assert sorted(_numbers(server, "doubled", live=True)) == [2 * n for n in every]
    _pipeline(server, scratch, remote, "profile", "job/doubled", "job/profile", "--once")
    with stream(f"{server.url}/job/profile", live=False) as response:
        assert sum(report["rows"] for report in response.iter_json()) == len(every)


def _pipeline(server: Server, scratch: Path, remote: str, verb: str, *arguments: str) -> None:
    command = [*COMMAND, "pipeline", verb, *arguments, "--remote", remote]
    command += ["--checkpoint", str(scratch / f"{verb}-checkpoint")]
    done = subprocess.run(
        command,
        env=environment(MILLSTREAM_URL=server.url),
        capture_output=True,
        text=True,
        timeout=PIPELINE_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-8000:]


def _numbers(server: Server, name: str, *, live: bool = False) -> list[int]:
    with stream(f"{server.url}/job/{name}", live=live) as response:
        return [message["n"] for message in response.iter_json()]
