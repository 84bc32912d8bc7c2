"""Servers on a folder, to be ended in every way but the polite one; and clients that survive it."""

import http.client
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from running import Server, announced, free_port

SMALL_SEGMENTS = str(Path(__file__).with_name("small_segments.py"))
PATIENCE_S = 60.0


def start(
    folder: Path,
    port: int = 0,
    *,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Server:
    """Start a server and give it as it is: ready, or already gone."""
    command = [*prefix, sys.executable, SMALL_SEGMENTS, "serve", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--data", str(folder), "--drain-timeout-s", "2", *options]
    return Server(command, environment or {})


@contextmanager
def serving(folder: Path, port: int = 0, **options: object) -> Iterator[Server]:
    """A server that is ready; what is left of it at the end is ended."""
    server = start(folder, port, **options)  # type: ignore[arg-type]
    try:
        announced(server)
        yield server
    finally:
        server.stop()


def kill(server: Server) -> None:
    """End a server as nobody should."""
    server.signal(signal.SIGKILL)
    server.stop()


class Client:
    """A connection to a server that may go away at any time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None
        self.lost: Exception | None = None  # why the last answer that is missing did not come

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes] | None:
        """Ask, and give the status, the headers and the body; None when nobody knows what became of it."""
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
            fields = {"content-type": "application/octet-stream", **(headers or {})}
            self._connection.request(method, path, body or None, fields)
            response = self._connection.getresponse()
            data = response.read()
            found = {name.lower(): value for name, value in response.getheaders()}
            if found.get("connection") == "close":
                self.close()
        except (OSError, http.client.HTTPException) as error:
            self.lost = error
            self.close()
            return None
        return response.status, found, data

    def read_all(self, path: str) -> tuple[int, bytes, bool]:
        """Read a stream to its tail: the last status, the bytes, and whether it is closed."""
        offset, data = "-1", b""
        while True:
            answer = self.request("GET", f"{path}?offset={offset}")
            assert answer is not None, "the server is gone"
            status, headers, part = answer
            if status != 200:
                return status, data, False
            data += part
            offset = headers["stream-next-offset"]
            if "stream-up-to-date" in headers:
                return status, data, headers.get("stream-closed") == "true"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def port_of(server: Server) -> int:
    return int(server.url.rpartition(":")[2])


__all__ = ["Client", "free_port", "kill", "port_of", "serving", "start"]
