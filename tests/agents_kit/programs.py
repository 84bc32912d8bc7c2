"""Python programs as processes of their own, which tests start twice, let race and kill."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from running import Server, announced, started


def start(source: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start a program with a pipe for what it prints."""
    command = [sys.executable, "-c", textwrap.dedent(source), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    """Wait for a program that must succeed; return what it printed."""
    out, problems = process.communicate(timeout=60)
    assert process.returncode == 0, problems
    return out


@contextmanager
def durable(folder: Path, port: str = "0") -> Iterator[Server]:
    """A server with the durable engine, which a test may kill."""
    command = [sys.executable, "-m", "millstream", "serve", "--host", "127.0.0.1", "--port", port]
    with started([*command, "--data", str(folder / "streams")], announced) as server:
        yield server
