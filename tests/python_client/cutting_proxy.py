"""A proxy that cuts answers: it gives one append at a time, as a server with small answers would.

The reference server answers a read with everything it has. The proxy remembers where each append that
went through it ended, and cuts what a reader gets at the first of these ends. A cut answer loses what is
true of the whole one only: that the reader is up to date, that the stream ends, its tag.

    with CuttingProxy(server.url) as proxy:
        stream = DurableStream(proxy.url + "/log")

It holds whole answers, so it cannot carry event streams.
"""

import http.client
import http.server
from typing import Any
from urllib.parse import parse_qs, urlsplit

from python_client.threaded_server import ThreadedServer

_OF_THE_WHOLE = {"stream-up-to-date", "stream-closed", "stream-cursor", "etag", "cache-control"}
_OF_THE_CONNECTION = {"connection", "content-length", "transfer-encoding", "date", "keep-alive"}


class CuttingProxy(ThreadedServer):
    """A proxy before one server, in threads of its own."""

    def __init__(self, target: str) -> None:
        self.cuts = 0
        self._ends: dict[str, list[tuple[str, int]]] = {}
        self._upstream = urlsplit(target).netloc
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                proxy._pass_on(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(Handler)

    def _pass_on(self, asked: http.server.BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers.get("content-length", "0")))
        fields = {
            name: value
            for name, value in asked.headers.items()
            if name.lower() not in _OF_THE_CONNECTION | {"host", "accept-encoding"}
        }
        upstream = http.client.HTTPConnection(self._upstream, timeout=30)
        upstream.request(asked.command, asked.path, body, fields)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        parts = urlsplit(asked.path)
        if asked.command == "POST" and body and answer.status in (200, 204):
            self._ends.setdefault(parts.path, []).append((headers["stream-next-offset"], len(body)))
        if asked.command == "GET" and answer.status == 200:
            content = self._cut(parts.path, parse_qs(parts.query)["offset"][0], headers, content)
        _answer(asked, answer.status, headers, content)

    def _cut(self, path: str, offset: str, headers: dict[str, Any], content: bytes) -> bytes:
        ahead = [(end, size) for end, size in self._ends.get(path, []) if offset == "-1" or end > offset]
        if len(ahead) < 2:
            return content
        end, size = ahead[0]
        for name in _OF_THE_WHOLE:
            headers.pop(name, None)
        headers["stream-next-offset"] = end
        self.cuts += 1
        return content[:size]


def _answer(
    asked: http.server.BaseHTTPRequestHandler, status: int, headers: dict[str, Any], content: bytes
) -> None:
    asked.send_response(status)
    for name, value in headers.items():
        if name not in _OF_THE_CONNECTION:
            asked.send_header(name, value)
    if status != 204:
        asked.send_header("content-length", str(len(content)))
    asked.end_headers()
    asked.wfile.write(content)
