"""A real standalone cluster on this machine: a master and workers, as operators start them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from running import Server, free_port, listening_on, started

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


class Cluster:
    """Where to reach the master, and the processes of its workers."""

    def __init__(self, master: str, workers: list[Server]) -> None:
        self.master = master
        self._workers = workers

    def executors(self) -> list[int]:
        """Give the process ids of the executors that the workers have started."""
        found: list[int] = []
        for worker in self._workers:
            listed = subprocess.run(
                ["pgrep", "-P", str(worker.pid)], capture_output=True, text=True, check=False
            )
            found += map(int, listed.stdout.split())
        return found


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Start a master and workers of one core each."""
    folder.mkdir(parents=True)
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(folder),
        "PATH": os.environ["PATH"],
    }
    with ExitStack() as stack:
        command = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        stack.enter_context(started(_deploy(command), listening_on(port), environment))
        nodes = [
            stack.enter_context(started(_deploy(_worker(master)), _registered, environment))
            for _ in range(workers)
        ]
        yield Cluster(master, nodes)


def _deploy(command: list[str]) -> list[str]:
    return [str(SPARK_CLASS), f"org.apache.spark.deploy.{command[0]}", *command[1:]]


def _worker(master: str) -> list[str]:
    return [
        "worker.Worker",
        "--host",
        "127.0.0.1",
        "--cores",
        "1",
        "--memory",
        "1g",
        "--webui-port",
        "0",
        master,
    ]


def _registered(worker: Server) -> None:
    worker.wait_until(lambda: "Successfully registered with master" in worker.output())
