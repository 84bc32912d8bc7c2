"""The types are complete: a user's file passes mypy strict, and pyright when it is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

USER = Path(__file__).parent / "typed_user.py"
SOURCES = Path(__file__).parents[2] / "src"


def test_mypy_accepts_a_users_file(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    settings = tmp_path / "mypy.ini"
    settings.write_text(f"[mypy]\nstrict = true\nmypy_path = {SOURCES}\ncache_dir = {tmp_path}/cache\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), str(USER)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_pyright_accepts_a_users_file() -> None:
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed: pip install pyright")
    # The package fetches the checker itself when it is first called.
    fetched = subprocess.run([pyright, "--version"], capture_output=True, text=True, timeout=110)
    if fetched.returncode != 0:
        pytest.skip(f"pyright cannot be fetched: {fetched.stderr.strip().splitlines()[-1]}")
    checked = subprocess.run(
        [pyright, "--pythonpath", sys.executable, str(USER)], capture_output=True, text=True, timeout=110
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
