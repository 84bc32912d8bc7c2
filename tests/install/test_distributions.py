"""The wheel and the sdist are complete, and the bare wheel serves on every Python that is found here."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from install.trees import ROOT, cloned
from running import announced, started

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ROUND_TRIP = """\
import sys
from millstream import DurableStream, stream
chat = DurableStream.create(sys.argv[1] + "/chat/1", content_type="application/json")
chat.append({"token": "Hello"})
chat.close()
with stream(chat.url, live=True) as response:
    print(list(response.iter_json()))
"""


def pip(python: Path | str, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=alone())
    if "No matching distribution found" in ran.stderr:
        pytest.skip(f"what is needed cannot be had here: {ran.stderr.strip().splitlines()[-1]}")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def alone() -> dict[str, str]:
    """The environment without what would let a Python find this repository."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHONPATH", "MILLSTREAM_"))
    }


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build the sdist from a clone and the wheel from the sdist, so that the wheel proves the sdist whole."""
    folder = tmp_path_factory.mktemp("distributions")
    clone = cloned(folder / "clone")
    tools = folder / "tools"
    subprocess.run([f"{sys.base_prefix}/bin/python3", "-m", "venv", str(tools)], check=True)
    pip(tools / "bin/python", "install", "--quiet", "--no-compile", "hatchling>=1.27")
    build = "from hatchling.build import build_sdist; print(build_sdist('.'))"
    subprocess.run([tools / "bin/python", "-c", build], cwd=clone, check=True, capture_output=True)
    [sdist] = clone.glob("millstream-*.tar.gz")
    pip(
        tools / "bin/python",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(sdist),
    )
    [wheel] = folder.glob("millstream-*.whl")
    return wheel, sdist


def test_the_wheel_has_every_file_of_the_packages_and_nothing_else(distributions: tuple[Path, Path]) -> None:
    names = {name for name in zipfile.ZipFile(distributions[0]).namelist() if ".dist-info/" not in name}
    ours = {
        one.relative_to(ROOT / "src").as_posix()
        for one in (ROOT / "src").rglob("*")
        if one.is_file() and "__pycache__" not in one.parts
    }
    assert names == ours
    assert "millstream/py.typed" in names
    assert any(name.startswith("millstream/server/web/") and name.endswith(".js") for name in names)


def test_the_sdist_has_what_building_and_testing_need(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "constraints.txt"} <= names
    assert {"tests/install/test_distributions.py", "docs/tutorial.md", "deploy/Dockerfile"} <= names
    assert not {name for name in names if name.startswith((".venv", "node_modules", "data/"))}


def test_what_is_declared_names_the_extras_that_there_are() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert extras["server"] == extras["cli"] == [], "older instructions name them"
    heavy = re.compile("pyspark|pandas|pyarrow|opentelemetry|pytest|hypothesis|psycopg")
    assert not [one for one in project["dependencies"] if heavy.match(one)]
    versions = {one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)}
    assert versions == set(PYTHONS)


def interpreter(version: str) -> str | None:
    """Find a Python of this version, on the PATH or among pyenv's, that really starts."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*sorted(pyenv.glob(f"{version}.*/bin/python")), shutil.which(f"python{version}")]
    for one in filter(None, found):
        asked = [str(one), "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == version:
            return str(one)
    return None


@pytest.fixture
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A fresh environment of the version that the test asks for; removed at the end, it is large."""
    found = interpreter(request.param)
    if found is None:
        pytest.skip(f"Python {request.param} is not installed: the wheel is not tried with it")
    subprocess.run([found, "-m", "venv", str(tmp_path / "env")], check=True)
    yield tmp_path / "env" / "bin"
    shutil.rmtree(tmp_path / "env")


@pytest.mark.timeout(300)  # packages are downloaded
@pytest.mark.parametrize("environment", PYTHONS, indirect=True)
def test_the_bare_wheel_serves_and_its_client_makes_a_round_trip(
    environment: Path, distributions: tuple[Path, Path], tmp_path: Path
) -> None:
    constraints = ROOT / "constraints.txt"
    pip(
        environment / "python",
        "install",
        "--quiet",
        "--no-compile",
        "--constraint",
        str(constraints),
        str(distributions[0]),
    )
    command = [str(environment / "millstream"), "serve", "--port", "0", "--data", str(tmp_path / "data")]
    with started(command, announced, {"PYTHONPATH": ""}) as server:
        asked = [str(environment / "python"), "-c", ROUND_TRIP, server.url]
        ran = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=tmp_path, env=alone())
        assert (ran.returncode, ran.stdout) == (0, "[{'token': 'Hello'}]\n"), ran.stderr
        listed = [str(environment / "millstream"), "list", "--url", server.url]
        ran = subprocess.run(listed, capture_output=True, text=True, check=False, cwd=tmp_path, env=alone())
        assert '"path":"/chat/1"' in ran.stdout, ran.stderr
