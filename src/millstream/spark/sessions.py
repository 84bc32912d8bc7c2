"""Sessions: a local Spark, for pipelines, tests and benchmarks; and what is registered in a session."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

_WORKER_PYTHON = Path(__file__).with_name("worker-python")
"""Starts workers faster than Spark's default."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    # Over TCP a worker that is used again waits 40 ms for a delayed acknowledgement at the start of a task.
    "spark.python.unix.domain.socket.enabled": "true",
}


def local_session(name: str, *, cores: str = "*", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark in this process, on loopback, or return the existing session.

    Workers run this process's interpreter, with the same packages.
    """
    wanted = {"spark.master": f"local[{cores}]", **_SETTINGS, **(settings or {})}
    _choose_python(is_local=wanted["spark.master"].startswith("local"))
    builder = SparkSession.builder.appName(name)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _choose_python(*, is_local: bool) -> None:
    python = sys.executable
    if is_local and os.access(_WORKER_PYTHON, os.X_OK):
        os.environ["MILLSTREAM_WORKER_PYTHON"] = sys.executable
        os.environ["MILLSTREAM_WORKER_PATH"] = os.environ.get("PYTHONPATH", "")
        python = str(_WORKER_PYTHON)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python


def register(spark: SparkSession, source: type[DataSource]) -> str:
    """Make a data source known to a session, and return its name for `format`.

    The name is a new one each time: where another session of the same Spark has registered a name, it can
    neither be used nor be registered again.
    """
    name = f"{source.name()}-{uuid4().hex}"
    spark.dataSource.register(type(source.__name__, (source,), {"name": classmethod(lambda _: name)}))
    return name
