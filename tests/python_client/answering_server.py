"""A server that answers with exactly the bytes that a test gives, and remembers what it was asked."""

import socketserver
from collections.abc import Callable

from python_client.faulty_proxy import Request
from python_client.threaded_server import ThreadedServer


class AnsweringServer(ThreadedServer):
    """Answers each request with the bytes that `answer` returns for it, and then closes the connection."""

    def __init__(self, answer: Callable[[Request], bytes]) -> None:
        self.seen: list[Request] = []
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = self.rfile.readline()
                    if not line:
                        return
                    head += line
                request = Request(head[:-4], b"")
                request.body = self.rfile.read(int(request.headers.get("content-length", 0)))
                outer.seen.append(request)
                self.wfile.write(answer(request))

        super().__init__(Handler)
