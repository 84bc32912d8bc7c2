"""Our server under the suite that we ship, and the reports of the suite."""

from __future__ import annotations

import io
import json
import shlex
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from conformance.proxy import Ask, MutatingProxy, Reply, Send
from conformance.restarting import end
from millstream_conformance.server import discover, run_checks, run_server_suite
from running import (
    HASTY_MS,
    ServerFactory,
    announced,
    free_port,
    granian_server,
    hypercorn_server,
    millstream,
    started,
    uvicorn_server,
)

TRIES = 3  # the checks measure time, and other tests keep this machine busy


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


SERVERS: dict[str, ServerFactory] = {
    "native": millstream,
    # The suite sends headers of proxies, which make a client count as one on another machine.
    "uvicorn": partial(uvicorn_server, insecure=True),
    "granian": partial(granian_server, insecure=True),
    "hypercorn": partial(hypercorn_server, insecure=True),
}


@pytest.mark.parametrize("start", SERVERS.values(), ids=SERVERS)
def test_our_server_conforms(start: ServerFactory) -> None:
    with start(long_poll_ms=HASTY_MS) as server:
        output = io.StringIO()
        exit_code = run_server_suite(server.url, strict=True, tries=TRIES, output=output)
    assert exit_code == 0, output.getvalue()


def test_our_log_store_conforms_across_a_kill(tmp_path: Path) -> None:
    """The durable store passes everything, and keeps what was acknowledged when it is killed."""
    port, pid_file = free_port(), tmp_path / "server.pid"
    serve = [
        sys.executable,
        "-m",
        "millstream",
        "serve",
        "--port",
        str(port),
        "--long-poll-timeout-ms",
        str(HASTY_MS),
    ]
    command = [*serve, "--store", "log", "--data", str(tmp_path / "data")]
    restart = [sys.executable, str(Path(__file__).parent / "restarting.py"), str(pid_file), *command]
    output = io.StringIO()
    try:
        subprocess.run(restart, check=True)
        deadline = time.monotonic() + 60
        while not accepts(port) and time.monotonic() < deadline:
            time.sleep(0.05)
        exit_code = run_server_suite(
            f"http://127.0.0.1:{port}",
            restart_command=shlex.join(restart),
            strict=True,
            tries=TRIES,
            output=output,
        )
    finally:
        end(pid_file)
    assert exit_code == 0, output.getvalue() + (tmp_path / "server.log").read_text()
    assert "no restart command" not in output.getvalue()


def test_a_server_with_its_defaults_listens_on_loopback_only() -> None:
    if accepts(4437):
        pytest.skip("port 4437 is taken")
    with started([sys.executable, "-m", "millstream", "serve", "--store", "memory"], announced) as server:
        run = run_checks(server.url, discover(rules=["P4"]))
    assert run.url == "http://127.0.0.1:4437"
    assert [result.outcome for result in run.results] == ["passed"]


def no_closed_header(ask: Ask, send: Send) -> Reply:
    return send(ask).drop("Stream-Closed")


def test_a_broken_server_gets_reports_that_show_why(tmp_path: Path) -> None:
    output = io.StringIO()
    with millstream(long_poll_ms=HASTY_MS) as server, MutatingProxy(server.url, no_closed_header) as broken:
        exit_code = run_server_suite(
            broken.url,
            rules=["A5"],
            report=["json", "junit", "html"],
            report_path=tmp_path / "r",
            output=output,
        )
    assert exit_code == 1
    assert "does not conform" in output.getvalue()
    assert "> POST /conformance-" in output.getvalue(), "the exchange is shown"

    report = json.loads((tmp_path / "r.json").read_text())
    failed = [check for check in report["checks"] if check["outcome"] == "failed"]
    assert len(failed) == report["failed"] > 0
    assert all("A5" in check["rules"] and "< HTTP/1.1 409 Conflict" in check["exchange"] for check in failed)

    required = [check for check in failed if not check["stricter"]]
    cases = ET.parse(tmp_path / "r.xml").getroot().iter("testcase")
    assert sum(case.find("failure") is not None for case in cases) == len(required)

    page = (tmp_path / "r.html").read_text()
    assert "{{" not in page
    assert "http-equiv" not in page and "src=" not in page, "the page needs nothing else"
    assert f"{len(required)} checks fail." in page


def test_groups_can_be_chosen_and_skipped() -> None:
    assert {check.group for check in discover(only=["closure", "producers"])} == {"closure", "producers"}
    assert "closure" not in {check.group for check in discover(skip=["closure"])}
    assert not any(check.notes.stricter for check in discover(skip=["stricter"]))
    assert {check.group for check in discover(only=["live"])} == {
        "longpoll",
        "sse",
        "sse_payloads",
        "cursors",
    }


@pytest.mark.parametrize("wrong", [{"only": ["nothing"]}, {"report": "pdf"}, {"rules": ["P4"]}])
def test_what_cannot_run_is_exit_code_2(wrong: dict[str, object]) -> None:
    output = io.StringIO()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        assert run_server_suite(url, output=output, **wrong) == 2  # type: ignore[arg-type]  # rows of options
    assert output.getvalue()
