"""The walk-through prints what it says that it prints."""

import shutil
import subprocess
import sys

import pytest

from examples.conftest import EXAMPLES
from running import Server

RUN_TIMEOUT_S = 400

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: openjdk-17-jre-headless"),
    pytest.mark.timeout(RUN_TIMEOUT_S + 20),
]


def test_every_cell_prints_what_stands_below_it(server: Server) -> None:
    script = EXAMPLES / "walkthrough.py"
    promised = [
        line.removeprefix("# > ") for line in script.read_text().splitlines() if line.startswith("# > ")
    ]
    assert len(promised) > 10
    command = [sys.executable, str(script), server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised
