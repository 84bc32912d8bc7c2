"""What the small servers of these tests share: a port, threads, and an end."""

import socketserver
import threading
from types import TracebackType
from typing import Self


class ThreadedServer:
    """Handles each connection in a thread of its own, from `with` to its end."""

    def __init__(self, handler: type[socketserver.BaseRequestHandler]) -> None:
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

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
