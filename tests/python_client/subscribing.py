"""A subscription of its own for a test: a fresh folder of streams, its id and its wake stream."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import millstream


class Folder:
    """Streams below `{root}/{name}/`, where subscriptions of this test look."""

    def __init__(self, server_url: str) -> None:
        self.root = f"{server_url}/v1/stream"
        self.name = f"t{uuid.uuid4().hex[:12]}"
        self.id = f"sub-{self.name}"
        self.wake = f"{self.name}/wake"
        self.pattern = f"{self.name}/in/**"

    def path(self, name: str) -> str:
        return f"{self.name}/in/{name}"

    def stream(self, name: str, content_type: str = "application/json") -> millstream.DurableStream:
        url = f"{self.root}/{self.path(name)}"
        return millstream.DurableStream.create(url, content_type=content_type)


class Received:
    """A webhook's request."""

    def __init__(self, headers: dict[str, str], body: bytes) -> None:
        self.headers = headers
        self.body = body


@contextmanager
def receiver(answer: Callable[[Received], tuple[int, bytes]]) -> Iterator[tuple[str, "Queue[Received]"]]:
    """An endpoint for webhooks on loopback: its URL, and what it has received."""
    received: Queue[Received] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            request = Received(dict(self.headers.items()), body)
            status, content = answer(request)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            received.put(request)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", received
    finally:
        server.shutdown()
        server.server_close()
