"""A copy of the repository as a clone has it, and what is found out about it."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def cloned(folder: Path) -> Path:
    """Copy what git knows, and nothing that a build or a test left here."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():  # not what is deleted and not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def megabytes(folder: Path) -> float:
    """Sum up what a folder takes on the disk."""
    files = [one for one in folder.rglob("*") if not one.is_symlink()]
    return sum(one.stat().st_blocks * 512 for one in files) / 1e6
