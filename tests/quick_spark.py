"""Let every Spark of the tests start in half the time.

Tests start Spark dozens of times, mostly for seconds, in which Java does little but find, check and
compile classes. Run as a program, this has one Spark do a bit of everything, and keeps the classes
that it needed in an archive beside the environment. Tests then let Java take them from there, and
compile less than a long job would want. Without the archive they run as well, only longer.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

ARCHIVE = Path(sys.prefix) / f"spark-{pyspark.__version__}-classes.jsa"
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
BIT_OF_EVERYTHING = Path(__file__).parent / "spark" / "bit_of_everything.py"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
TO_STDERR = "-Xlog:disable -Xlog:all=error:stderr"  # what Java says about archives, it says on stdout


def use() -> None:
    """Have the Sparks that this process and its children start be quick; what is set already stays."""
    options = f"{SHORT_LIVED} {TO_STDERR}"
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED)
    if ARCHIVE.exists():
        options += f' -XX:SharedArchiveFile="{ARCHIVE}"'
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options)  # of drivers, and of whatever else has one process
    os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", options)  # of a cluster's master and workers


def prepare() -> None:
    """Make the archive, unless it is there or there is no Java."""
    if ARCHIVE.exists() or shutil.which("java") is None:
        return
    print("keeping Spark's classes, so that its tests start faster (once, less than a minute)", flush=True)
    with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
        made = Path(folder) / ARCHIVE.name
        options = f'{SHORT_LIVED} {TO_STDERR} -XX:ArchiveClassesAtExit="{made}"'
        variables = {"SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable}
        command = [SPARK_SUBMIT, "--master", "local[2]", BIT_OF_EVERYTHING, folder]
        ran = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        if ran.returncode or not made.exists():
            print(
                f"Spark's classes were not kept; its tests take longer:\n{ran.stderr[-2000:]}",
                file=sys.stderr,
            )
            return
        made.rename(ARCHIVE)  # whole, or not there


if __name__ == "__main__":
    prepare()
