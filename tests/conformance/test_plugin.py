"""The suite as a pytest plugin: the same checks, pytest's own output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conformance.proxy import Ask, MutatingProxy, Reply, Send
from millstream_conformance.server import discover
from running import HASTY_MS, millstream


def pytest_run(tmp_path: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A pytest of its own, in an empty folder, as a user would start it."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "millstream_conformance.server.plugin",
        "-p",
        "no:cacheprovider",
    ]
    command += ["--pyargs", "millstream_conformance.server.suite", "--server-url", url, *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)


def test_a_chosen_group_passes(tmp_path: Path) -> None:
    with millstream(long_poll_ms=HASTY_MS) as server:
        finished = pytest_run(tmp_path, server.url, "--server-only", "closure,longpoll", "-q")
    number = len(discover(only=["closure", "longpoll"]))
    assert finished.returncode == 0, finished.stdout
    assert f"{number} passed" in finished.stdout


def no_closed_header(ask: Ask, send: Send) -> Reply:
    return send(ask).drop("Stream-Closed")


def test_a_failure_shows_its_exchange(tmp_path: Path) -> None:
    with millstream(long_poll_ms=HASTY_MS) as server, MutatingProxy(server.url, no_closed_header) as broken:
        finished = pytest_run(tmp_path, broken.url, "--server-rules", "A5,L2")
    assert finished.returncode == 1
    assert "exchange (A5)" in finished.stdout
    assert "< HTTP/1.1 409 Conflict" in finished.stdout
    assert "exchange (L2)" in finished.stdout, "checks that wait show it too"


def no_vary(ask: Ask, send: Send) -> Reply:
    return send(ask).drop("Vary")


def test_a_stricter_failure_is_expected_unless_strict(tmp_path: Path) -> None:
    with millstream(long_poll_ms=HASTY_MS) as server, MutatingProxy(server.url, no_vary) as broken:
        options = (broken.url, "--server-only", "compression", "-q")
        lenient = pytest_run(tmp_path, *options)
        strict = pytest_run(tmp_path, *options, "--server-strict")
    assert lenient.returncode == 0, lenient.stdout
    assert "xfailed" in lenient.stdout
    assert strict.returncode == 1
    assert "the_uncompressed_variant_says_vary" in strict.stdout


def test_a_further_try_is_named(tmp_path: Path) -> None:
    failed = False

    def fails_once(ask: Ask, send: Send) -> Reply:
        nonlocal failed
        if ask.method == "POST" and ask.body != b"probe" and not failed:  # probes find out what is offered
            failed = True
            return Reply(500, [])
        return send(ask)

    with millstream(long_poll_ms=HASTY_MS) as server, MutatingProxy(server.url, fails_once) as broken:
        finished = pytest_run(tmp_path, broken.url, "--server-rules", "A9", "--server-tries", "2")
    assert finished.returncode == 0, finished.stdout
    assert "passed on try 2: " in finished.stdout


def test_a_wrong_group_is_a_usage_error(tmp_path: Path) -> None:
    finished = pytest_run(tmp_path, "http://127.0.0.1:9", "--server-only", "nothing")
    assert finished.returncode == 4
    assert "no group 'nothing'" in finished.stderr
