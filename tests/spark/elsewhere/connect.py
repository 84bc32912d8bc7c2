"""A Spark Connect server on this machine, as an operator starts it, but not as a daemon."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

import quick_spark
from running import free_port, listening_on, started

SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
START_TIMEOUT_S = 120
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Start a server with a Spark of two cores; give what clients connect to."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.sql.shuffle.partitions": 2,
        "spark.ui.enabled": "false",
    }
    command = [str(SPARK_SUBMIT), "--class", CLASS, "--master", "local[2]", "--driver-memory", "1g"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = {
        **quick_spark.WORKERS,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": os.environ["PATH"],
    }
    with started(command, listening_on(port, START_TIMEOUT_S), environment):
        yield f"sc://127.0.0.1:{port}"
