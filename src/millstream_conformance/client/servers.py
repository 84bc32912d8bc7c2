"""The scripted server: HTTP/1.1 on loopback, one thread per connection, and faults on demand.

It uses plain sockets because it must do what HTTP libraries prevent: close in the middle of a body,
declare more bytes than it sends, write an event byte by byte.
"""

from __future__ import annotations

import base64
import contextlib
import http
import socket
import struct
import threading
import time
from typing import BinaryIO

from millstream_conformance.client.answers import Answer, answer
from millstream_conformance.client.scenes import Misbehaviour, Request, Scene, marked

PIECE_PAUSE_S = 0.001
HANG_S = 30.0
GOODBYE_S = 2.0


class BadRequestError(Exception):
    """Bytes that are not an HTTP request."""


class ScriptedServer:
    """Listens until it is closed. Scenes are found by the first segment of the path."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.answers_seen = 0
        self._scenes: dict[str, Scene] = {}
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._accepting = threading.Thread(target=self._accept, daemon=True, name="scripted-server")
        self._accepting.start()

    def scene(
        self, name: str, *, chunk_bytes: int = 1 << 20, long_poll_ms: int = 400, odd_offsets: bool = False
    ) -> Scene:
        """A new scene; its streams live below `/{name}/`."""
        scene = Scene(name, chunk_bytes=chunk_bytes, long_poll_ms=long_poll_ms, odd_offsets=odd_offsets)
        self._scenes[name] = scene
        return scene

    def close(self) -> None:
        """Stop listening, end every connection."""
        for scene in self._scenes.values():
            scene.end()
        stop_accepting(self._listener, self._accepting)
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError, BadRequestError), sock.makefile("rb") as source:
                while (request := _read_request(source, sock)) is not None:
                    if not self._exchange(sock, request):
                        break
        finally:
            with self._lock:
                self._open.discard(sock)
            sock.close()

    def _exchange(self, sock: socket.socket, request: Request) -> bool:
        """Answer one request; False ends the connection."""
        self.answers_seen += 1
        scene = self._scenes.get(request.path.strip("/").partition("/")[0])
        if scene is None:
            _send(sock, Answer(404), request, Misbehaviour())
            return True
        fault = scene.arrive(request) or Misbehaviour()
        if fault.delay_ms:
            time.sleep(fault.delay_ms / 1000)
        if fault.drop == "before":
            scene.say("    < (connection closed without an answer; nothing was done)")
            _abort(sock)
            return False
        with scene.changed:
            planned = answer(scene, request) if fault.status is None or fault.commit else Answer(200)
        if fault.drop == "after":
            scene.say("    < (connection closed without an answer; the request was carried out)")
            _abort(sock)
            return False
        given = _changed(planned, fault)
        scene.say(
            marked("<", _status_line(given), [f"{n}: {v}" for n, v in given.headers.items()], given.body)
        )
        if given.events is not None:
            _send_events(sock, given, request, scene)
            return False
        return _send(sock, given, request, fault, scene)


def stop_accepting(listener: socket.socket, accepting: threading.Thread) -> None:
    """Close a listener in which a thread waits.

    Closing alone does not wake the thread on Linux. The next listener may get the same descriptor, and a
    restarted system call would then accept its connections.
    """
    with contextlib.suppress(OSError):  # systems that refuse this wake the thread when it is closed
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    accepting.join(GOODBYE_S)


def _changed(planned: Answer, fault: Misbehaviour) -> Answer:
    """The answer with the fault applied."""
    status = planned.status if fault.status is None else fault.status
    replaced = fault.status is not None and not fault.commit
    headers = {} if replaced else dict(planned.headers)
    for name, value in fault.headers.items():
        headers = {key: old for key, old in headers.items() if key.lower() != name.lower()}
        if value is not None:
            headers[name] = value
    if fault.body is None and fault.body_base64 is None:
        return Answer(status, headers, planned.body, None if replaced else planned.events)
    body = base64.b64decode(fault.body_base64) if fault.body_base64 else (fault.body or "").encode()
    return Answer(status, headers, body)


def _status_line(given: Answer) -> str:
    try:
        reason = http.HTTPStatus(given.status).phrase
    except ValueError:
        reason = "Unknown"
    return f"HTTP/1.1 {given.status} {reason}"


def _send(
    sock: socket.socket, given: Answer, request: Request, fault: Misbehaviour, scene: Scene | None = None
) -> bool:
    """Send an answer, truncated if the fault says so; False ends the connection."""
    body = b"" if request.method == "HEAD" or given.status in {204, 304} else given.body
    unframed = fault.hang or given.headers.get("Content-Type", "").startswith("text/event-stream")
    head = dict(given.headers)
    if unframed:
        head["Connection"] = "close"
    elif given.status not in {204, 304} and "Content-Length" not in head:
        head["Content-Length"] = str(len(body))
    sock.sendall(_head(given, head))
    cut = body if fault.truncate is None else body[: fault.truncate]
    size = fault.piece or max(1, len(cut))
    for at in range(0, len(cut), size):
        sock.sendall(cut[at : at + size])
        if fault.piece:
            time.sleep(PIECE_PAUSE_S)
    if fault.hang and scene is not None:
        deadline = time.monotonic() + HANG_S
        with scene.changed:
            while not scene.over and time.monotonic() < deadline:
                scene.changed.wait(deadline - time.monotonic())
    return not unframed and fault.truncate is None


def _send_events(sock: socket.socket, given: Answer, request: Request, scene: Scene) -> None:
    assert given.events is not None
    sock.sendall(_head(given, {**given.headers, "Transfer-Encoding": "chunked", "Connection": "close"}))
    if request.method == "HEAD":
        return
    for piece in given.events:
        scene.say(marked("<", "(event stream)", [], piece).replace("    <\n", ""))
        sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    sock.sendall(b"0\r\n\r\n")


def _head(given: Answer, headers: dict[str, str]) -> bytes:
    lines = [_status_line(given), *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _abort(sock: socket.socket) -> None:
    """Reset the connection, so that the client notices at once."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _read_request(source: BinaryIO, sock: socket.socket) -> Request | None:
    line = source.readline(65536)
    if not line:
        return None
    try:
        method, target, _ = line.decode("latin-1").split(" ", 2)
        headers = []
        while (line := source.readline(65536)) not in {b"\r\n", b"\n", b""}:
            name, _, value = line.decode("latin-1").partition(":")
            headers.append((name, value.strip()))
        fields = {name.lower(): value for name, value in headers}
        if fields.get("expect", "").lower() == "100-continue":
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = _read_body(source, fields)
    except (ValueError, UnicodeDecodeError) as error:
        raise BadRequestError(str(error)) from error
    path, _, query = target.partition("?")
    return Request(method, path, query, tuple(headers), body)


def _read_body(source: BinaryIO, fields: dict[str, str]) -> bytes:
    if fields.get("transfer-encoding", "").lower() != "chunked":
        return source.read(int(fields.get("content-length", 0)))
    body = b""
    while size := int(source.readline(1024).partition(b";")[0], 16):
        body += source.read(size)
        source.readline(16)
    while source.readline(65536) not in {b"\r\n", b""}:
        pass
    return body
