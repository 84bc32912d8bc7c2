"""The public conformance suite, run against each way of serving millstream.

It counts what passed, not only what failed: a suite that silently runs nothing must not look green.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from node import NodeUnavailableError, install, node
from running import LONG_POLL_TIMEOUT_MS, ServerFactory, durable_millstream, millstream, uvicorn_server

HERE = Path(__file__).parent
SUITE_TIMEOUT_S = 120

SUBSCRIPTIONS = False  # the server has no subscriptions yet
TESTS_IN_SUITE = 338
SUBSCRIPTION_TESTS = 6
EXPECTED_PASSES = TESTS_IN_SUITE if SUBSCRIPTIONS else TESTS_IN_SUITE - SUBSCRIPTION_TESTS

pytestmark = [pytest.mark.node, pytest.mark.timeout(SUITE_TIMEOUT_S + 200)]


@dataclass(frozen=True)
class Verdict:
    """What the suite said about one server."""

    passed: int
    skipped: int
    failures: list[str]


@pytest.fixture(scope="module")
def vitest() -> Path:
    try:
        return install(HERE) / "vitest" / "vitest.mjs"
    except NodeUnavailableError as reason:
        pytest.skip(f"the public suite needs Node: {reason}")


def judge(vitest: Path, url: str, report: Path, *options: str) -> Verdict:
    """Run the suite against `url` and read its report."""
    finished = subprocess.run(
        [node(), str(vitest), "run", "--reporter=json", f"--outputFile={report}", *options],
        cwd=HERE,
        env={
            **os.environ,
            "SERVER_URL": url,
            "LONG_POLL_TIMEOUT_MS": str(LONG_POLL_TIMEOUT_MS),
            "SUBSCRIPTIONS": "on" if SUBSCRIPTIONS else "off",
        },
        capture_output=True,
        text=True,
        timeout=SUITE_TIMEOUT_S,
    )
    assert report.exists(), f"vitest wrote no report:\n{finished.stdout}\n{finished.stderr}"
    verdict = json.loads(report.read_text())
    failures = [
        "\n    ".join([test["fullName"], *(message.splitlines()[0] for message in test["failureMessages"])])
        for file in verdict["testResults"]
        for test in file["assertionResults"]
        if test["status"] == "failed"
    ]
    # A file that cannot even be loaded has no tests, only a message.
    failures += [file["message"] for file in verdict["testResults"] if file["message"]]
    return Verdict(verdict["numPassedTests"], verdict["numPendingTests"], failures)


@pytest.mark.parametrize(
    "serve", [millstream, durable_millstream, uvicorn_server], ids=["memory", "log", "asgi"]
)
def test_the_public_suite_passes(serve: ServerFactory, vitest: Path, tmp_path: Path) -> None:
    with serve() as server:
        verdict = judge(vitest, server.url, tmp_path / "report.json")
        if verdict.failures and all(failure.startswith("TTL Expiration") for failure in verdict.failures):
            # These have half a second to spare, which a sync may take while others write a lot.
            verdict = judge(vitest, server.url, tmp_path / "again.json")
        assert not verdict.failures, f"{len(verdict.failures)} failed:\n" + "\n".join(verdict.failures)
        assert verdict.passed == EXPECTED_PASSES
        assert verdict.passed + verdict.skipped == TESTS_IN_SUITE


class YesServer(BaseHTTPRequestHandler):
    """Answers 200 and nothing else, whatever it is asked."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_POST = do_DELETE = do_PUT

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_the_judge_convicts_a_server_that_only_says_yes(vitest: Path, tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), YesServer) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            verdict = judge(vitest, url, tmp_path / "report.json", "--testNamePattern=HTTP Protocol")
        finally:
            server.shutdown()
    assert len(verdict.failures) > verdict.passed
