"""Several processes on one port."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from postgres.cluster import shared
from postgres.servers import serving
from running import millstream

PATIENCE_S = 60


def children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, check=False)
    return [int(line) for line in found.stdout.split()]


def test_processes_share_a_port_and_one_that_dies_is_replaced() -> None:
    cluster = shared()
    text = {"content-type": "text/plain"}
    with millstream("--store", cluster.url(cluster.new_schema()), "--workers", "2") as server:
        first = children(server.pid)
        assert len(first) == 2
        httpx.put(f"{server.url}/s", headers=text).raise_for_status()
        for number in range(20):  # each on a connection of its own: either process answers
            httpx.post(f"{server.url}/s", content=b"%02d" % number, headers=text).raise_for_status()
        os.kill(first[0], signal.SIGKILL)
        give_up_s = time.monotonic() + PATIENCE_S
        while len(set(children(server.pid)) - {first[0]}) < 2:
            assert time.monotonic() < give_up_s
            time.sleep(0.05)
        assert httpx.get(f"{server.url}/s").content == b"".join(b"%02d" % number for number in range(20))
        assert "a process has died, and is replaced" in server.output()


def test_processes_whose_parent_is_killed_stop() -> None:
    """They would hold the port otherwise, and nobody would replace them."""
    cluster = shared()
    with serving(cluster.url(cluster.new_schema()), options=["--workers", "2"]) as server:
        others = children(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        give_up_s = time.monotonic() + PATIENCE_S
        while any(Path(f"/proc/{pid}").exists() for pid in others):
            assert time.monotonic() < give_up_s, "processes are left over"
            time.sleep(0.05)


def serve(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "millstream", "serve", "--port", "0", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_log_has_one_process_and_the_server_says_why(tmp_path: Path) -> None:
    found = serve("--data", str(tmp_path), "--workers", "2")
    assert found.returncode == 2
    assert "cannot share the store log" in found.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_database_that_is_not_there_is_said_at_once(workers: str) -> None:
    found = serve("--store", "postgres://nobody@127.0.0.1:1/nowhere", "--workers", workers)
    assert found.returncode == 1
    assert "the database cannot be reached" in found.stderr
    assert "Traceback" not in found.stderr
