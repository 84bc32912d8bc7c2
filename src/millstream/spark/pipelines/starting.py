"""Starting: a Spark session, and clear errors when something is missing.

This module can be imported without Spark, because it reports that Spark is missing.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17
_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # With this optimization Spark would parse a message once for each of its fields.
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
}
_LOCAL = {"spark.sql.shuffle.partitions": "4"}
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_TIMEOUT_S = 30


class NotReadyError(RuntimeError):
    """Something that Spark needs is missing; `hint` says what to install."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint


def start(
    name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Return a session: in this process, on a cluster, or on a Spark Connect server (`remote`)."""
    check_installed(connects=remote is not None)
    wanted = {**_EVERYWHERE, **(settings or {})}
    if remote is not None:
        return _connected(remote, wanted)
    check_java()
    if master is None or master.startswith("local"):
        from millstream.spark.sessions import local_session

        cores = (master or "local[*]").removeprefix("local").strip("[]") or "1"
        return local_session(name, cores=cores, settings={**_LOCAL, **wanted})
    return _on_cluster(name, master, wanted)


def check_installed(*, connects: bool = False) -> None:
    """Check that the Python packages are installed."""
    extra = "connect" if connects else "spark"
    for package in ("pyspark", "pyarrow", "pandas", *(("grpc", "grpc_status") if connects else ())):
        if importlib.util.find_spec(package) is None:
            raise NotReadyError(
                f"Spark is not complete: there is no Python package {package}",
                f"pip install 'millstream[{extra}]' brings it",
            )


def check_java(environment: Mapping[str, str] = os.environ) -> None:
    """Check that there is a Java that Spark supports."""
    hint = (
        f"Install Java {JAVA} or newer (Debian and Ubuntu: apt-get install openjdk-{JAVA}-jre-headless; "
        f"macOS: brew install openjdk@{JAVA}), set JAVA_HOME, or use a Spark elsewhere with --remote"
    )
    home = environment.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java", path=environment.get("PATH", ""))
    if found is None or not Path(found).exists():
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise NotReadyError(f"Spark needs Java, and there is none {where}", hint)
    said = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S)
    version = _VERSION.search(said.stderr + said.stdout)
    if version is not None and int(version[1]) < JAVA:
        raise NotReadyError(f"Spark needs Java {JAVA}, and {found} is Java {version[1]}", hint)


def _on_cluster(name: str, master: str, settings: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {"spark.ui.showConsoleProgress": "false", **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _connected(remote: str, settings: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(remote)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
