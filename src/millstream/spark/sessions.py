"""Sessions: a local Spark, for pipelines, tests and benchmarks."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

_WORKER_PYTHON = Path(__file__).with_name("worker-python")
"""Starts workers faster than Spark's default."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
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
