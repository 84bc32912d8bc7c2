"""The examples do what they say, as programs."""

import http.server
import os
import sys
import threading
from collections.abc import Iterator

import pytest

import millstream
from examples.conftest import EXAMPLES, run, start

BODY = os.urandom(300_000)


class Upstream(http.server.BaseHTTPRequestHandler):
    """A server with something to fetch, whole or broken off."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "image/x-noise")
        self.send_header("content-length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY if self.path == "/whole" else BODY[:100_000])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def test_the_fetch_proxy_copies_a_response_and_ends(upstream: str, url: str) -> None:
    out = run("fetch_proxy.py", f"{upstream}/whole", url)
    with millstream.stream(url) as response:
        assert response.read_bytes() == BODY
        assert (response.stream_closed, response.content_type) == (True, "image/x-noise")
        assert out == f"complete at {response.offset}\n"


def test_the_fetch_proxy_says_when_the_upstream_broke(upstream: str, url: str) -> None:
    run("fetch_proxy.py", f"{upstream}/broken", url)
    with millstream.stream(url) as response:
        content = response.read_bytes()
        assert response.stream_closed is True
    assert content[:100_000] == BODY[:100_000]
    assert content[100_000:] == b"\nupstream failed: IncompleteRead\n"


def test_a_jobs_log_is_followed_to_its_exit_code(url: str) -> None:
    script = (
        "import time\nfor n in range(3): print('line', n, flush=True); time.sleep(0.05)\nraise SystemExit(3)"
    )
    with start("job_log.py", "run", url, "--", sys.executable, "-c", script) as job:
        job.communicate(timeout=60)
    assert job.returncode == 3
    with start("job_log.py", "follow", url) as follower:
        out, problems = follower.communicate(timeout=60)
    assert (follower.returncode, problems) == (3, "")
    assert out == "line 0\nline 1\nline 2\n-- the job has ended --\n"
    events = list(millstream.stream(url).iter_json())
    assert [event["type"] for event in events] == ["start", "log", "log", "log", "complete"]


def test_a_jobs_log_is_followed_while_it_runs(url: str) -> None:
    millstream.DurableStream.create(url, content_type="application/json", ttl_seconds=7 * 24 * 3600)
    with start("job_log.py", "follow", url) as follower:
        run("job_log.py", "run", url, "--", "echo", "hello")
        out, problems = follower.communicate(timeout=60)
    assert (follower.returncode, out, problems) == (0, "hello\n-- the job has ended --\n", "")


def test_a_cached_answer_is_complete_at_once_and_twice(url: str) -> None:
    for _ in range(2):
        assert run("cached_answer.py", url) == "25 items, the stream is complete\n"


def test_the_application_with_resumable_tokens_is_short() -> None:
    """What it does is tested in a browser."""
    source = (EXAMPLES / "token_stream.py").read_text()
    assert len(source.splitlines()) <= 40
    guide = EXAMPLES.parent / "docs" / "guides" / "resumable-tokens.md"
    assert f"```python\n{source}```" in guide.read_text()


def test_the_page_needs_nothing_but_itself() -> None:
    page = (EXAMPLES / "token_stream.html").read_text()
    assert "src=" not in page
    assert "EventSource" in page
