"""Servers behind a real pgbouncer, by session, and by transaction if it keeps prepared statements."""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from postgres.cluster import _user, new_folder, shared
from postgres.servers import serving
from running import free_port

TEXT = {"content-type": "text/plain"}
KEEPS_STATEMENTS = (1, 21)


def installed() -> str:
    found = shutil.which(
        "pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"
    )
    if found is None:
        pytest.skip("pgbouncer is not installed")
    return found


def version() -> tuple[int, ...]:
    told = subprocess.run([installed(), "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in re.findall(r"\d+", told)[:2])


@contextmanager
def pooled(mode: str) -> Iterator[str]:
    """The URL of a schema through a pooler, which passes no search path on."""
    cluster, program = shared(), installed()
    schema, port, folder = cluster.new_schema(), free_port(), new_folder().parent
    Path(folder / "pgbouncer.ini").write_text(
        f"""[databases]
postgres = host=127.0.0.1 port={cluster.port} user=postgres connect_query='SET search_path TO {schema}'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 20
{"max_prepared_statements = 100" if version() >= KEEPS_STATEMENTS else ""}
"""
    )
    command = [program, "-q", str(folder / "pgbouncer.ini")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, user=_user(), cwd="/", stdout=log, stderr=log)
    try:
        give_up_s = time.monotonic() + 30
        while not _accepts(port):
            assert time.monotonic() < give_up_s and process.poll() is None, (folder / "log").read_text()
            time.sleep(0.05)
        yield f"postgres://postgres@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def use(url: str) -> None:
    """Let two servers share what is behind a pooler."""
    with serving(url) as one, serving(url) as other, httpx.Client(timeout=30) as client:
        client.put(f"{one.url}/s", headers=TEXT).raise_for_status()
        for number in range(30):
            server = (one, other)[number % 2]
            client.post(f"{server.url}/s", content=b"%02d" % number, headers=TEXT).raise_for_status()
        tail = client.head(f"{one.url}/s").headers["stream-next-offset"]
        with client.stream("GET", f"{other.url}/s", params={"offset": tail, "live": "sse"}) as events:
            lines = events.iter_lines()
            next(lines)
            httpx.post(f"{one.url}/s", content=b"heard", headers=TEXT).raise_for_status()
            assert any("heard" in line for line in lines)
        assert client.get(f"{other.url}/s").content.startswith(b"000102")


def test_a_pooler_of_sessions_is_as_good_as_none() -> None:
    with pooled("session") as url:
        use(url)


def test_a_pooler_of_transactions_keeps_prepared_statements_or_is_refused() -> None:
    from postgres.test_workers import serve

    with pooled("transaction") as url:
        if version() >= KEEPS_STATEMENTS:
            use(url)
        else:
            found = serve("--store", url)
            assert found.returncode == 1
            assert "forgets prepared statements" in found.stderr.replace("\n", " ")
            assert "Traceback" not in found.stderr
