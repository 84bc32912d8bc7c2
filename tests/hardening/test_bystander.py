"""The bystander notices a server that works long for somebody else."""

import http.server
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hardening.bystander import Bystander

WORK_S = 0.3


class Slow(http.server.BaseHTTPRequestHandler):
    """Works before it answers a read."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self._answer(201)

    def do_GET(self) -> None:
        end_s = time.thread_time() + WORK_S
        while time.thread_time() < end_s:
            pass
        self._answer(200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processor times from /proc")
def test_what_a_server_does_before_it_answers_counts() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{serving.server_port}"
        server: Any = type("Here", (), {"url": url, "pid": os.getpid(), "exit_code": 0})
        with Bystander(server, appends=False) as bystander:
            pass
        serving.shutdown()
        thread.join()
    assert bystander.most_work_s > WORK_S * 0.8
