"""Our client, both shells, and the public Python client under the client suite."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from millstream_conformance.client import Case, discover, run_cases
from millstream_conformance.results import Run

OURS = [sys.executable, "-m", "millstream.adapter.commands"]
PUBLIC = [sys.executable, str(Path(__file__).parent / "public_python.py")]


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, Future[Run[Case]]]]:
    """Both shells side by side: most cases wait."""
    commands = {"sync": OURS, "async": [*OURS, "--async"]}
    with ThreadPoolExecutor(2) as threads:
        yield {name: threads.submit(run_cases, command, discover()) for name, command in commands.items()}


@pytest.mark.parametrize("shell", ["sync", "async"])
def test_our_client_conforms(shell: str, runs: dict[str, Future[Run[Case]]]) -> None:
    run = runs[shell].result()
    failed = {result.check.name: result.message for result in run.failures}
    assert not failed
    assert run.count("skipped") == 0


def test_the_public_python_client_appends() -> None:
    """What it has works. Closure, producers and retries are not in it: see docs/conformance.md."""
    run = run_cases(PUBLIC, discover(only=["append"], skip=["CL3", "append-wrong-content-type"]), jobs=1)
    assert [(result.check.id, result.message) for result in run.failures] == []
    assert run.count("passed") >= 8
