"""Another version of millstream as a peer, from the `src` folder of another checkout.

It runs with this environment's packages, and is started with no more options than every version knows.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.running import Server, announced, started


@contextmanager
def serving(source: Path, *, durable: bool) -> Iterator[Server]:
    """Run its server, in memory or on a folder that is gone afterwards."""
    command = [sys.executable, "-m", "millstream", "serve", "--host", "127.0.0.1", "--port", "0"]
    with ExitStack() as ending:
        if durable:
            folder = ending.enter_context(tempfile.TemporaryDirectory(prefix="bench-before-"))
            command += ["--store", "log", "--data", folder]
        else:
            command += ["--store", "memory"]
        environment = {"PYTHONPATH": str(source.resolve())}
        yield ending.enter_context(started(command, announced, environment))
