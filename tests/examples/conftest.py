"""A server for the examples, and a way to run one as a user would."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from running import Server, millstream

EXAMPLES = Path(__file__).parents[2] / "examples"


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
    out, problems = process.communicate(timeout=30)
    assert process.returncode == 0, problems
    assert problems == ""
    return out
