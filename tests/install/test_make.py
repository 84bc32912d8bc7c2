"""`make` installs what a verb needs: a server in little time and space, and Spark for whoever asks for it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from install.trees import ROOT, cloned, megabytes
from millstream import DurableStream
from running import announced, free_port, started

MAX_MEGABYTES = 150  # beside the clone's own history
SPARK_AND_TOOLS = {"pyspark", "pandas", "pyarrow", "pytest", "mypy", "ruff", "mkdocs", "opentelemetry"}
VERBS = {
    # verb: what it has to install, what it must not
    "serve": (["--editable ."], ["[", "--group"]),
    "demo": (["[spark]"], ["--group"]),
    "docs": (["--group docs"], ["[spark]", "--group test"]),
    "format": (["--group check"], ["[spark]", "--group test"]),
    "check": (["[all]", "--group check", "--group test"], ["--group docs"]),
    "test": (["[all]", "--group check", "--group test"], ["--group docs"]),
    "bench": (["[all]", "--group test"], ["--group docs"]),
}


def tried(folder: Path, *verbs: str) -> str:
    command = ["make", "--dry-run", "--no-print-directory", *verbs]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_installs_what_it_needs_and_shows_progress(verb: str, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    recipe = tried(tmp_path, verb)
    needed, unneeded = VERBS[verb]
    for part in needed:
        assert part in recipe, recipe
    for part in unneeded:
        assert part not in recipe, recipe
    assert "Installing" in recipe
    installing = [line for line in recipe.splitlines() if "pip install" in line]
    assert not any("--quiet" in line for line in installing), "pip shows its progress"


def test_installing_twice_does_nothing(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    recipe = tried(tmp_path, "install", "docs")
    (tmp_path / ".venv").mkdir()
    for stamps in re.findall(r"^touch (.+)$", recipe, re.MULTILINE):
        for stamp in stamps.split():
            (tmp_path / stamp).touch()
    for verb in VERBS:
        assert "pip install" not in tried(tmp_path, verb), verb


@pytest.mark.timeout(300)  # packages are downloaded
def test_from_a_clone_to_a_served_stream(tmp_path: Path) -> None:
    """With Python alone; what is installed and where it ends up is small."""
    clone = cloned(tmp_path / "clone")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MILLSTREAM_")}
    installed = subprocess.run(
        ["make", f"PYTHON={sys.base_prefix}/bin/python3", ".venv/.installed-serve"],
        cwd=clone, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "No matching distribution found" in installed.stdout + installed.stderr:
        pytest.skip("no package index can be reached: make serve is not tried")
    assert installed.returncode == 0, installed.stdout + installed.stderr
    assert megabytes(clone) < MAX_MEGABYTES
    packages = {one.name.partition("-")[0] for one in (clone / ".venv").rglob("*.dist-info")}
    assert packages & SPARK_AND_TOOLS == set()
    command = ["make", "--no-print-directory", f"--directory={clone}", "serve"]
    environment = {"MILLSTREAM_PORT": str(free_port()), "MILLSTREAM_DATA": str(tmp_path / "data")}
    with started(command, announced, environment) as server:
        stream = DurableStream.create(f"{server.url}/first", content_type="text/plain")
        stream.append(b"served")
        assert stream.head().offset == f"{0:016}_{6:016}"
