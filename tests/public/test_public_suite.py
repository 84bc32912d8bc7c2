"""The public conformance suite, run against each way of serving millstream.

It counts what passed, not only what failed: a suite that silently runs nothing must not look green.
"""

import json
import os
import re
import subprocess
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from node import NodeUnavailableError, install, node
from postgres.cluster import shared
from running import (
    HASTY_MS,
    PATIENT_MS,
    Server,
    ServerFactory,
    durable_millstream,
    millstream,
    uvicorn_server,
)

HERE = Path(__file__).parent
SUITE_TIMEOUT_S = 120
MAX_RERUNS = 2

TESTS_IN_SUITE = 338

pytestmark = [
    pytest.mark.node,
    pytest.mark.timeout(SUITE_TIMEOUT_S + 200),
    # Not an error: pytest lists it in its summary, which is the report.
    pytest.mark.filterwarnings("default:re-run in isolation"),
]


@dataclass(frozen=True)
class Verdict:
    """What the suite reported about one server."""

    passed: int
    failures: dict[str, str]  # what was wrong, by the test's name


@pytest.fixture(scope="module")
def vitest() -> Path:
    try:
        return install(HERE) / "vitest" / "vitest.mjs"
    except NodeUnavailableError as reason:
        pytest.skip(f"the public suite needs Node: {reason}")


def run_suite(vitest: Path, url: str, report: Path, *options: str) -> Verdict:
    """Run the suite against `url` and read its report."""
    finished = subprocess.run(
        [node(), str(vitest), "run", "--reporter=json", f"--outputFile={report}", *options],
        cwd=HERE,
        env={**os.environ, "SERVER_URL": url},
        capture_output=True,
        text=True,
        timeout=SUITE_TIMEOUT_S,
    )
    assert report.exists(), f"vitest wrote no report:\n{finished.stdout}\n{finished.stderr}"
    verdict = json.loads(report.read_text())
    failures = {
        test["fullName"]: "\n    ".join(message.splitlines()[0] for message in test["failureMessages"])
        for file in verdict["testResults"]
        for test in file["assertionResults"]
        if test["status"] == "failed"
    }
    # A file that cannot even be loaded has no tests, only a message.
    failures |= {file["name"]: file["message"] for file in verdict["testResults"] if file["message"]}
    return Verdict(verdict["numPassedTests"], failures)


def listed(failures: Mapping[str, str]) -> str:
    return f"{len(failures)} failed" + "".join(f"\n{name}\n    {why}" for name, why in failures.items())


def run_isolated(vitest: Path, url: str, report: Path, names: Iterable[str]) -> Verdict:
    """Run only the tests of these names, one after another."""
    only = "|".join(re.escape(name) for name in names)
    return run_suite(vitest, url, report, "--maxConcurrency=1", f"--testNamePattern=^({only})$")


@contextmanager
def over_postgres(*, long_poll_ms: int = PATIENT_MS) -> Iterator[Server]:
    """Our server over a database."""
    cluster = shared()
    with millstream("--store", cluster.url(cluster.new_schema()), long_poll_ms=long_poll_ms) as server:
        yield server


@pytest.mark.parametrize(
    "serve",
    [millstream, durable_millstream, uvicorn_server, over_postgres],
    ids=["memory", "log", "asgi", "postgres"],
)
def test_the_public_suite_passes(serve: ServerFactory, vitest: Path, tmp_path: Path) -> None:
    with serve(long_poll_ms=HASTY_MS) as server:
        concurrent = run_suite(vitest, server.url, tmp_path / "concurrent.json")
        passed, failures = concurrent.passed, concurrent.failures
        for attempt in range(MAX_RERUNS):
            if not failures:
                break
            # Some of its tests measure time (a TTL of 2 s is checked after 1.5 s), or name a subscription by
            # the millisecond, and were written to run one after another. We run them concurrently, so those
            # that fail are re-run in isolation.
            names = ", ".join(failures)
            warnings.warn(f"re-run in isolation: {names}", stacklevel=1)
            isolated = run_isolated(vitest, server.url, tmp_path / f"isolated-{attempt}.json", failures)
            passed, failures = passed + isolated.passed, isolated.failures
        assert not failures, listed(failures)
        assert passed == TESTS_IN_SUITE


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


def test_a_server_that_answers_200_to_everything_fails(vitest: Path, tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), YesServer) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            verdict = run_suite(vitest, url, tmp_path / "concurrent.json", "--testNamePattern=HTTP Protocol")
            isolated = run_isolated(vitest, url, tmp_path / "isolated.json", verdict.failures)
        finally:
            server.shutdown()
    assert len(verdict.failures) > verdict.passed
    assert isolated.failures.keys() == verdict.failures.keys()
    assert isolated.passed == 0
