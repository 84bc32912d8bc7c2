"""`millstream.asgi` where the packages of the server are not installed."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

import millstream

SOURCES = Path(millstream.__file__).parent.parent


def run_bare(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code where only the package and msgspec can be imported."""
    package = Path(msgspec.__file__).parent
    (folder / package.name).symlink_to(package)
    path = os.pathsep.join([str(SOURCES), str(folder)])
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(
        command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=60
    )


def test_a_missing_package_is_named_with_the_extra_that_brings_it(tmp_path: Path) -> None:
    failed = run_bare("import millstream.asgi", tmp_path)
    last = failed.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: millstream.asgi needs ")
    assert "pip install 'millstream[server]'" in last
