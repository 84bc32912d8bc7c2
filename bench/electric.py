"""Electric's server, written in Rust: the fastest other server of the protocol, built once by `cargo`.

It keeps every stream on the disk and has no other mode that its users run, so it is compared with our durable
store in every row. The binary goes to a cache folder of the user, not into the repository.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.running import Server, free_port, listening_on, started

VERSION = "0.1.5"
BUILD_TIMEOUT_S = 1800.0


class ElectricUnavailableError(Exception):
    """The server cannot be had here; the message says why."""


def _root() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "millstream-bench" / f"durable-streams-{VERSION}"


def _binary() -> Path:
    return _root() / "bin" / "durable-streams-server"


def install_once() -> None:
    """Build the pinned version, unless it is there."""
    if _binary().exists():
        return
    cargo = shutil.which("cargo")
    if cargo is None:
        raise ElectricUnavailableError("cargo, which builds it, is not installed")
    command = [cargo, "install", "durable-streams", "--version", VERSION, "--locked", "--root", str(_root())]
    try:
        built = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise ElectricUnavailableError(f"building it took more than {BUILD_TIMEOUT_S:.0f} s") from None
    if built.returncode:
        reason = (built.stderr.strip().splitlines() or ["cargo failed"])[-1]
        raise ElectricUnavailableError(f"it could not be built: {reason}")


@contextmanager
def serving() -> Iterator[Server]:
    """Run it on a folder that is gone afterwards; every append is synced before it is answered."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bench-electric-") as folder:
        command = [str(_binary()), "--host", "127.0.0.1", "--port", str(port), "--data-dir", folder]
        with started(command, listening_on(port)) as server:
            yield server
