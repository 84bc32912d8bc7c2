"""Let every Spark of the tests start in half the time, and write its files without starting programs.

Tests start Spark dozens of times, mostly for seconds, in which Java does little but find, check and
compile classes. Run as a program, this has one Spark do a bit of everything, and keeps the classes
that it needed in an archive beside the environment. Tests then let Java take them from there, and
compile less than a long job would want. Hadoop's way to write files, which starts a process for each
of them, is replaced (`spark/LocalFiles.java`). Without either, tests run as well, only longer.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

_SPARK = Path(__file__).parent / "spark"
BIT_OF_EVERYTHING = _SPARK / "bit_of_everything.py"
COMPILE = _SPARK / "compile_local_files.py"
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
WORKERS = {
    "PYSPARK_PYTHON": str(Path(__file__).parents[1] / "src" / "millstream" / "spark" / "worker-python"),
    "MILLSTREAM_WORKER_PYTHON": sys.executable,
    "MILLSTREAM_WORKER_PATH": os.environ.get("PYTHONPATH", ""),
}
"""Variables for a Spark that is not started by `local_session`: its Python workers start as quickly."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
TO_STDERR = "-Xlog:disable -Xlog:all=error:stderr"  # what Java says about archives, it says on stdout


def _made(ending: str) -> Path:
    """Name what is made of the sources, so that other sources make another one."""
    sources = b"".join(file.read_bytes() for file in (BIT_OF_EVERYTHING, COMPILE, _SPARK / "LocalFiles.java"))
    digest = hashlib.sha256(sources).hexdigest()[:8]
    return Path(sys.prefix) / f"spark-{pyspark.__version__}-{digest}{ending}"


LOCAL_FILES = _made(".jar")
ARCHIVE = _made(".jsa")


def use() -> None:
    """Have the Sparks that this process and its children start be quick; what is set already stays."""
    options = f"{SHORT_LIVED} {TO_STDERR}"
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED)
    if LOCAL_FILES.exists():
        os.environ.setdefault("SPARK_DIST_CLASSPATH", str(LOCAL_FILES))
    if ARCHIVE.exists():
        options += f' -XX:SharedArchiveFile="{ARCHIVE}"'
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options)  # of drivers, and of whatever else has one process
    os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", options)  # of a cluster's master and workers


def prepare() -> None:
    """Make both, unless they are there or there is no Java."""
    if ARCHIVE.exists() or shutil.which("java") is None:
        return
    print("keeping Spark's classes, so that its tests start faster (once, less than a minute)", flush=True)
    options = f"{SHORT_LIVED} {TO_STDERR}"
    with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
        jar, archive = Path(folder) / LOCAL_FILES.name, Path(folder) / ARCHIVE.name
        if not _ran([sys.executable, COMPILE, jar], {"SPARK_SUBMIT_OPTS": options}):
            return
        jar.rename(LOCAL_FILES)  # whole, or not there; at its place, which the archive remembers
        variables = {
            "SPARK_SUBMIT_OPTS": f'{options} -XX:ArchiveClassesAtExit="{archive}"',
            "SPARK_DIST_CLASSPATH": str(LOCAL_FILES),
            "PYSPARK_PYTHON": sys.executable,
        }
        if _ran([SPARK_SUBMIT, "--master", "local[2]", BIT_OF_EVERYTHING, folder], variables):
            archive.rename(ARCHIVE)


def _ran(command: Sequence[str | Path], variables: Mapping[str, str]) -> bool:
    environment = {**os.environ, **variables}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        print(f"Spark's classes were not kept; its tests take longer:\n{ran.stderr[-2000:]}", file=sys.stderr)
    return ran.returncode == 0


if __name__ == "__main__":
    prepare()
