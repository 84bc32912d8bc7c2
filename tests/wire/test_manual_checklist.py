"""The manual checklist of the closure plan, line by line, with curl.

The commands are the checklist's own; only its address is replaced. What the checklist leaves to
the eye of a reader ("should return immediately") is asserted. The cases run in the checklist's order
on one server, because each line builds on those before it.
"""

import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from running import Server, millstream

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the manual checklist needs curl")

CHECKLIST_ADDRESS = "http://localhost:4437"
AT_ONCE_S = 10  # a long-poll that nothing ends takes 20


@dataclass(frozen=True)
class Answer:
    """What curl saw."""

    status: int
    headers: dict[str, str]
    body: str


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with millstream() as server:
        yield server


def run(command: str, server: Server) -> Answer:
    """Run one line of the checklist and give the answer that curl's `-v` shows."""
    words = shlex.split(command.replace(CHECKLIST_ADDRESS, server.url))
    quiet = ["--silent", "--show-error", "--noproxy", "*", "--max-time", str(AT_ONCE_S)]
    started_at = time.monotonic()
    finished = subprocess.run([*words, "-v", *quiet], capture_output=True, text=True)
    assert finished.returncode == 0, f"{command}\n{finished.stderr}"
    assert time.monotonic() - started_at < AT_ONCE_S
    status, *headers = [line[2:] for line in finished.stderr.splitlines() if line.startswith("< ")]
    pairs = [header.split(": ", 1) for header in headers if header]
    return Answer(int(status.split()[1]), {name.lower(): value for name, value in pairs}, finished.stdout)


def test_create_and_close_stream(server: Server) -> None:
    created = run('curl -X PUT http://localhost:4437/test -H "Content-Type: text/plain"', server)
    assert created.status == 201
    assert "stream-closed" not in created.headers

    closed = run('curl -X POST http://localhost:4437/test -H "Stream-Closed: true" -v', server)
    assert closed.status == 204
    assert closed.headers["stream-closed"] == "true"
    assert closed.headers["stream-next-offset"] == created.headers["stream-next-offset"]


def test_head_shows_closed(server: Server) -> None:
    answer = run("curl -I http://localhost:4437/test", server)
    assert answer.status == 200
    assert answer.headers["stream-closed"] == "true"


def test_append_fails(server: Server) -> None:
    answer = run(
        'curl -X POST http://localhost:4437/test -H "Content-Type: text/plain" -d "should fail" -v', server
    )
    assert answer.status == 409
    assert answer.headers["stream-closed"] == "true"


def test_create_stream_in_closed_state(server: Server) -> None:
    answer = run(
        'curl -X PUT http://localhost:4437/closed -H "Content-Type: text/plain" -H "Stream-Closed: true"',
        server,
    )
    assert answer.status == 201
    assert answer.headers["stream-closed"] == "true"


def test_long_poll_returns_immediately(server: Server) -> None:
    answer = run('curl "http://localhost:4437/closed?offset=-1&live=long-poll" -v', server)
    assert answer.status == 204
    assert answer.headers["stream-closed"] == "true"
    assert answer.headers["stream-up-to-date"] == "true"
    assert answer.body == ""


def test_sse_closes_after_control_event(server: Server) -> None:
    answer = run('curl "http://localhost:4437/closed?offset=-1&live=sse" -v', server)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    name, data = answer.body.strip().splitlines()
    assert name == "event: control"
    control = json.loads(data.removeprefix("data:"))
    assert control["streamClosed"] is True
    assert control["upToDate"] is True
    assert "streamCursor" not in control
