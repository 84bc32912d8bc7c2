"""A server that answers with exactly the bytes that a test gives, and remembers what it was asked."""

import socketserver
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from python_client.faulty_proxy import Request


class AnsweringServer:
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

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
