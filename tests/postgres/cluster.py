"""A PostgreSQL of the tests: started once in a process when the first test needs it, stopped at its end.

It runs as an ordinary user, in a temporary folder, on a socket and a port of this machine. Every test has a
schema of its own. Syncs are off, except where durability is what is tested.
"""

import asyncio
import atexit
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import asyncpg
import pytest

from running import free_port

PATIENCE_S = 60.0
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
_SMALL = (
    "shared_buffers=32MB",
    "max_connections=200",
    "max_wal_size=256MB",
    "autovacuum_naptime=10s",
    "log_min_messages=fatal",
)


@functools.cache
def binaries() -> Path | None:
    """Find the programs of a PostgreSQL, the newest one."""
    on_path = shutil.which("postgres")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name))
    found += sorted(Path("/opt/homebrew/opt").glob("postgresql@*/bin"), reverse=True)
    return next((path for path in found if (path / "initdb").exists() and (path / "postgres").exists()), None)


def needed() -> Path:
    """Give the programs, or skip the test."""
    found = binaries()
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    if os.getuid() == 0 and _user() is None:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    return found


def _user() -> str | None:
    """Give the user to run as, where that is not the current one."""
    if os.getuid() != 0:
        return None
    return next((name for name in ("postgres", "nobody") if _exists(name)), None)


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


class Cluster:
    """One PostgreSQL."""

    def __init__(self, folder: Path, *options: str, begin: bool = True) -> None:
        self.bin = needed()
        self.folder = folder
        self.port = free_port()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._used_by: Path | None = None
        if begin:
            self._run("initdb", "-D", str(folder), "-U", "postgres", "-A", "trust", "-E", "UTF8",
                      "--no-sync", "--locale=C")  # fmt: skip
            self.start()

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [str(self.bin / program), *words], user=_user(), cwd="/", capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()

    def base_backup(self, folder: Path, *words: str) -> None:
        """Copy the cluster, as the beginning of a replica."""
        self._run(
            "pg_basebackup",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            "postgres",
            "-D",
            str(folder),
            *words,
        )

    def promote(self) -> None:
        """Let a replica become the primary."""
        self._run("pg_ctl", "promote", "-D", str(self.folder), "-w")

    def start(self) -> None:
        """Start, and wait until it answers."""
        words = [str(self.bin / "postgres"), "-D", str(self.folder), "-p", str(self.port), "-h", "127.0.0.1",
                 "-k", str(self.folder)]  # fmt: skip
        for option in (*_SMALL, *self._options):
            words += ["-c", option]
        self._launch(words)
        give_up_s = time.monotonic() + PATIENCE_S
        ready = [
            str(self.bin / "pg_isready"),
            "-q",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            "postgres",
        ]
        while subprocess.run(ready, check=False).returncode != 0:
            assert time.monotonic() < give_up_s, "PostgreSQL did not start"
            time.sleep(0.05)
            if self._process is None or self._process.poll() is not None:
                self._launch(words)  # it does not start while a process of one that was killed still ends

    def _launch(self, words: list[str]) -> None:
        with (self.folder.parent / "log").open("ab") as log:
            self._process = subprocess.Popen(words, user=_user(), cwd="/", stdout=log, stderr=log)

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop: SIGINT is fast, SIGQUIT immediate, SIGKILL what a power cut does to the processes."""
        process, self._process = self._process, None
        if process is None:
            return
        children = _children(process.pid) if number == signal.SIGKILL else []
        process.send_signal(number)
        for child in children:
            _kill(child)
        process.wait(PATIENCE_S)

    def url(self, schema: str = "public", *, port: int | None = None) -> str:
        """Give the URL of a schema."""
        return f"postgres://postgres@127.0.0.1:{port or self.port}/postgres?options=-csearch_path%3D{schema}"

    def url_of(self, folder: Path) -> str:
        """Give the URL of tables that are empty when a folder asks first, one folder after the other."""
        if self._used_by != folder:
            schema = "in_turns"
            if self._used_by is None:
                self.execute(f"CREATE SCHEMA {schema}")
            else:
                tables = (
                    "streams",
                    "stream_rows",
                    "producers",
                    "parts",
                    "ended_streams",
                    "subscription_rows",
                    "stream_changes",
                )
                self.execute("".join(f"DELETE FROM {schema}.{table};" for table in tables))
            self._used_by = folder
        return self.url("in_turns")

    def new_schema(self) -> str:
        """Make a schema for one test, and give its name."""
        schema = f"t{uuid.uuid4().hex[:16]}"
        self.execute(f"CREATE SCHEMA {schema}")
        return schema

    def execute(self, sql: str) -> None:
        """Run statements."""
        self.query(sql)

    def query(self, sql: str) -> list[asyncpg.Record]:
        """Run a query, or statements, and give what is found."""

        async def run() -> list[asyncpg.Record]:
            connection = await asyncpg.connect(self.url())
            try:
                if ";" in sql:
                    await connection.execute(sql)
                    return []
                return list(await connection.fetch(sql))
            finally:
                await connection.close()

        with asyncio.Runner() as runner:
            return runner.run(run())


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, check=False)
    return [int(line) for line in found.stdout.split()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def new_folder() -> Path:
    """Make a folder that the user of PostgreSQL may write to."""
    above = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    user = _user()
    if user is not None:
        shutil.chown(above, user)
    return above / "data"


@functools.cache
def shared() -> Cluster:
    """Give the cluster of this process."""
    needed()
    folder = new_folder()
    cluster = Cluster(folder, *_QUICK)

    def end() -> None:
        cluster.stop(signal.SIGQUIT)
        shutil.rmtree(folder.parent, ignore_errors=True)

    atexit.register(end)
    return cluster


def remove(cluster: Cluster) -> None:
    """Stop a cluster that a test has made, and remove it."""
    cluster.stop(signal.SIGQUIT)
    shutil.rmtree(cluster.folder.parent, ignore_errors=True)
