"""Lets the workers of pytest-xdist share what loading the test files costs.

pytest rewrites the assertions of every test file and keeps the result as bytecode. Workers collect the same
files in the same order, so in a first run each of them would rewrite all files, a third of a minute of
processor time. Here each worker begins at another file: what it reaches later, another one has rewritten.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.pathlib import ImportMode, import_path

TESTS = Path(__file__).parent


def load(config: pytest.Config) -> None:
    """Load all test files, if all are collected, from this worker's place on; the collection tells errors."""
    worker = getattr(config, "workerinput", None)
    if worker is None or any(Path(one).resolve() != TESTS for one in config.args):
        return
    for path in _from(int(worker["workerid"].removeprefix("gw")), worker["workercount"]):
        with suppress(Exception, pytest.skip.Exception), warnings.catch_warnings():
            warnings.simplefilter("error")  # as `filterwarnings` says for the collection
            import_path(
                path, mode=ImportMode.importlib, root=config.rootpath, consider_namespace_packages=False
            )


def _from(number: int, count: int) -> Iterator[Path]:
    files = [Path(folder) / name for folder, _, names in os.walk(TESTS) for name in names]
    files = sorted(file for file in files if file.name.startswith("test_") and file.suffix == ".py")
    begin = len(files) * number // count
    yield from files[begin:] + files[:begin]
