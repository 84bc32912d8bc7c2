"""A forward proxy: complete URLs for http, tunnels for https. Every host leads to one server of the test."""

import base64
import contextlib
import socket
import socketserver
import threading
from urllib.parse import urlsplit

from python_client.threaded_server import ThreadedServer

CREDENTIALS = "user:p@ss"


class ForwardProxy(ThreadedServer):
    """A proxy that asks for credentials, and remembers the first line of every request."""

    def __init__(self, target: str) -> None:
        self.seen: list[str] = []
        parts = urlsplit(target)
        upstream = (parts.hostname, parts.port)
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                lines = [self.rfile.readline()]
                while lines[-1] not in (b"\r\n", b""):
                    lines.append(self.rfile.readline())
                outer.seen.append(lines[0].decode().strip())
                method, place, _ = lines[0].split(b" ", 2)
                wanted = b"proxy-authorization: Basic " + base64.b64encode(CREDENTIALS.encode()) + b"\r\n"
                if wanted not in lines:
                    self.wfile.write(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    return
                with socket.create_connection(upstream) as connected:
                    if method == b"CONNECT":
                        self.wfile.write(b"HTTP/1.1 200 Go on\r\n\r\n")
                    else:
                        parts = urlsplit(place.decode())
                        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
                        kept = [line for line in lines[1:] if line != wanted and not _is_host(line)]
                        head = b"%b %b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" % (
                            method,
                            target.encode(),
                        )
                        connected.sendall(head + b"".join(kept))
                    back = threading.Thread(target=_copy, args=(connected, self.connection))
                    back.start()
                    while piece := self.rfile.read1(65536):
                        connected.sendall(piece)
                    with contextlib.suppress(OSError):
                        connected.shutdown(socket.SHUT_RDWR)
                    back.join()

        super().__init__(Handler)
        self.url = f"http://user:p%40ss@127.0.0.1:{self.port}"


def _is_host(line: bytes) -> bool:
    return line.lower().startswith(b"host:")


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_RDWR)
