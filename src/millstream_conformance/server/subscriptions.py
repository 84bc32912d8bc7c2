"""One subscription under test, and a receiver for its webhooks (protocol 6, 7)."""

from __future__ import annotations

import contextlib
import json
import queue
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream
from millstream_conformance.server.wire import Answer

JSON = {"Content-Type": "application/json"}


class Subscription:
    """A subscription by its id, below the server's control root. Every method is one request."""

    def __init__(self, server: Server, id: str | None = None) -> None:
        self.server = server
        self.id = id or server.path("sub").strip("/").replace("/", "-")
        self.base = f"{server.control_root}/__ds/subscriptions/{quote(self.id, safe='')}"
        self.folder = self.id

    def stream(self, name: str, body: bytes = b"", content_type: str = "text/plain") -> Stream:
        """Create a stream in this subscription's own folder."""
        return self.server.stream(
            content_type, body, path=f"{self.server.control_root}/{self.relative(name)}"
        )

    def relative(self, name: str) -> str:
        """A stream's path relative to the stream root, as subscriptions name it."""
        return f"{self.folder}/{name}"

    def put(self, **config: Any) -> Answer:
        """Create or re-confirm it."""
        return self.server.request("PUT", self.base, JSON, json.dumps(config).encode())

    def pull(self, **more: Any) -> Answer:
        """Create it as pull-wake over its own folder, with a fresh wake stream."""
        wake = self.relative("wake")
        self.wake = self.server.at(f"{self.server.control_root}/{wake}", "application/json")
        self.wake.put()
        config = {"type": "pull-wake", "pattern": self.relative("in/**"), "wake_stream": wake, **more}
        return self.put(**config)

    def get(self) -> Answer:
        """Read it."""
        return self.server.request("GET", self.base)

    def delete(self) -> Answer:
        """Delete it."""
        return self.server.request("DELETE", self.base)

    def post(self, action: str, body: Mapping[str, Any], token: str = "conformance") -> Answer:
        """POST to one of its actions: claim, ack, release, callback, streams."""
        headers = {**JSON, "Authorization": f"Bearer {token}"}
        return self.server.request("POST", f"{self.base}/{action}", headers, json.dumps(body).encode())

    def claim(self, worker: str = "worker-1") -> Answer:
        """Ask for the lease."""
        return self.post("claim", {"worker": worker})

    def unlink(self, path: str) -> Answer:
        """Remove an explicit stream link."""
        return self.server.request("DELETE", f"{self.base}/streams/{quote(path, safe='')}")

    def links(self) -> dict[str, Any]:
        """Its stream links by path."""
        return {link["path"]: link for link in self.get().json()["streams"]}

    def wakes(self) -> list[Any]:
        """The events in its wake stream so far."""
        found: list[Any] = self.wake.get().json()
        return found


def settle(claimed: Any, acks: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """The body of an ack (or release, or callback) for a claim or a wake."""
    body = {"wake_id": claimed["wake_id"], "generation": claimed["generation"], **more}
    if acks is not None:
        body["acks"] = [{"stream": stream, "offset": offset} for stream, offset in acks.items()]
    return body


@dataclass(frozen=True, slots=True)
class Delivery:
    """One webhook request as received."""

    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Receiver:
    """A webhook endpoint on loopback. `answer` decides each reply from the number of the request."""

    def __init__(
        self, answer: Callable[[int], tuple[int, Any]], headers: Mapping[str, str] | None = None
    ) -> None:
        deliveries: queue.Queue[Delivery] = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            count = 0

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                status, reply = answer(Handler.count)
                Handler.count += 1
                content = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):  # a server need not take all of it
                    self.wfile.write(content)
                deliveries.put(Delivery(dict(self.headers.items()), body))

            def log_message(self, format: str, *args: object) -> None:
                return

        self._deliveries = deliveries
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def next(self, timeout_s: float = 3.0) -> Delivery:
        """The next delivery; none in time is a failure."""
        try:
            return self._deliveries.get(timeout=timeout_s)
        except queue.Empty:
            raise AssertionError(f"no webhook was delivered within {timeout_s} s") from None

    def quiet(self, for_s: float) -> bool:
        """Whether nothing is delivered for a while."""
        try:
            self._deliveries.get(timeout=for_s)
        except queue.Empty:
            return True
        return False

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
