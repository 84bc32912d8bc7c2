"""`examples/token_stream.html` in Chromium: an answer continues after a kill of the server and a reload."""

import functools
import http.server
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream
from browser.watching import Watched
from running import free_port, listening_on, started

EXAMPLES = Path(__file__).parents[2] / "examples"
WORDS = [f"word-{n} " for n in range(60)]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page_url() -> Iterator[str]:
    """Where a web server that is not ours serves the page."""
    handler = functools.partial(Quiet, directory=EXAMPLES)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}/token_stream.html"
        serving.shutdown()
        thread.join()


def test_an_answer_survives_a_killed_server_and_a_reload(
    watched: Watched, page_url: str, tmp_path: Path
) -> None:
    port = free_port()
    command = [sys.executable, "-m", "millstream", "serve", "--port", str(port), "--data", str(tmp_path)]
    url = f"http://127.0.0.1:{port}/chat/1"
    page = watched.page

    def wait_for(text: str, state: str) -> None:
        page.wait_for_function(
            """([text, state]) => document.getElementById("answer").textContent === text
                && document.getElementById("state").textContent === state""",
            arg=[text, state],
        )

    with started(command, listening_on(port)) as server:
        answer = millstream.DurableStream.create(url, content_type="text/plain")
        page.goto(f"{page_url}?stream={url}")
        for word in WORDS[:20]:
            answer.append(word)
        wait_for("".join(WORDS[:20]), "live")
        server.signal(signal.SIGKILL)
        server.stop()
        wait_for("".join(WORDS[:20]), "reconnecting")
    with started(command, listening_on(port)):
        for word in WORDS[20:40]:
            answer.append(word)
        wait_for("".join(WORDS[:40]), "live")
        page.reload()
        for word in WORDS[40:]:
            answer.append(word)
        wait_for("".join(WORDS), "live")
        answer.close()
        wait_for("".join(WORDS), "complete")
        page.reload()
        wait_for("".join(WORDS), "complete")
