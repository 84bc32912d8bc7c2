"""A server for the examples, and a way to run one as a user would."""

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quick_spark
from running import Server, millstream

EXAMPLES = Path(__file__).parents[2] / "examples"
SPARK_TIMEOUT_S = 400
SPARK_ENVIRONMENT = {
    **quick_spark.WORKERS,
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",  # these jobs end before better code would pay
}

needs_java = pytest.mark.skipif(
    shutil.which("java") is None, reason="Spark needs Java: apt-get install openjdk-17-jre-headless"
)


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with millstream() as server:
        yield server


@pytest.fixture
def url(server: Server) -> str:
    return f"{server.url}/examples/{uuid.uuid4()}"


def start(name: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(name: str, *arguments: str) -> str:
    """Run an example to its end; give what it printed."""
    process = start(name, *arguments)
    out, problems = process.communicate(timeout=60)
    assert process.returncode == 0, problems
    assert problems == ""
    return out


def run_spark(command: list[str], **options: Any) -> str:
    """Run a command that starts Spark, which says much on stderr; give what it printed."""
    environment = {**os.environ, **SPARK_ENVIRONMENT, **options.pop("environment", {})}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SPARK_TIMEOUT_S,
        env=environment,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
