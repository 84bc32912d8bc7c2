"""The public reference server (Node), installed once beside this file and run as a process."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.node import install, node
from tests.running import Server, announced, started

HERE = Path(__file__).parent


@contextmanager
def in_memory() -> Iterator[Server]:
    with started(_command(), announced) as server:
        yield server


@contextmanager
def in_files() -> Iterator[Server]:
    """Durable: LMDB for its records and a log for the data, in a folder that is gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-reference-") as folder,
        started([*_command(), folder], announced) as server,
    ):
        yield server


def install_once() -> None:
    """Fetch the pinned package, unless it is here; NodeUnavailableError when that cannot be."""
    install(HERE)


def _command() -> list[str]:
    return [node(), str(HERE / "serve.mjs")]
