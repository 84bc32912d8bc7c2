"""A reverse proxy that breaks one rule of the server behind it.

A function `(ask, send) -> reply` handles each request. It may change the request before `send`, change
the reply after, reply without sending, or send twice. One such function is one mutant, so a rule is
broken without changing the server's code. Without a change the proxy must be transparent: the whole
suite passes through it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, quote

from millstream_conformance.client.servers import stop_accepting
from millstream_conformance.server.connections import Address, Connection, WireError
from millstream_conformance.server.wire import Headers, Request

GIANT_BYTES = 256 << 20
FRAMING = {"transfer-encoding", "content-length", "connection"}
Fields = list[tuple[str, str]]


class _Message:
    """Header access that a mutant needs: read, set, drop."""

    fields: Fields

    def get(self, name: str) -> str:
        return next((value for key, value in self.fields if key.lower() == name.lower()), "")

    def has(self, name: str) -> bool:
        return any(key.lower() == name.lower() for key, _ in self.fields)

    def drop(self, *names: str) -> Self:
        lowered = {name.lower() for name in names}
        self.fields = [(key, value) for key, value in self.fields if key.lower() not in lowered]
        return self

    def set(self, name: str, value: str) -> Self:
        self.drop(name)
        self.fields.append((name, value))
        return self


@dataclass
class Ask(_Message):
    """A request on its way to the server."""

    method: str
    target: str
    fields: Fields
    body: bytes = b""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @path.setter
    def path(self, path: str) -> None:
        self.target = path + ("?" + self.query if self.query else "")

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def param(self, name: str) -> str:
        return dict(parse_qsl(self.query, keep_blank_values=True)).get(name, "")

    def with_param(self, name: str, value: str | None) -> Self:
        """Set a query parameter, or drop it with None."""
        pairs = [(k, v) for k, v in parse_qsl(self.query, keep_blank_values=True) if k != name]
        pairs += [(name, value)] if value is not None else []
        self.target = self.path + (
            "?" + "&".join(f"{k}={quote(v, safe='')}" for k, v in pairs) if pairs else ""
        )
        return self

    def copy(self, **changes: object) -> Ask:
        values = {
            "method": self.method,
            "target": self.target,
            "fields": list(self.fields),
            "body": self.body,
        }
        return Ask(**{**values, **changes})  # type: ignore[arg-type]  # the mutant knows what it changes

    @property
    def is_read(self) -> bool:
        return self.method == "GET" and "/__ds/" not in self.path

    @property
    def is_poll(self) -> bool:
        return self.is_read and self.param("live") == "long-poll"

    @property
    def is_catch_up(self) -> bool:
        return self.is_read and not self.param("live")

    @property
    def closes(self) -> bool:
        return self.get("Stream-Closed").lower() == "true"


@dataclass
class Reply(_Message):
    """A reply on its way back. An event stream has `pieces` instead of a body."""

    status: int
    fields: Fields
    body: bytes = b""
    reason: str = "-"
    pieces: Iterator[bytes] | None = None
    hang_open: bool = False  # an event stream stays open after its last event
    misframed: bool = False  # a body is sent where none may be
    _upstream: Connection | None = field(default=None, repr=False)

    @property
    def is_events(self) -> bool:
        return self.pieces is not None

    def map_events(self, change: Callable[[str], str]) -> Self:
        """Change each event block (the text between blank lines) of an event stream."""
        if self.pieces is not None:
            self.pieces = (_map_blocks(piece, change) for piece in self.pieces)
        return self

    def map_pieces(self, change: Callable[[bytes], list[bytes]]) -> Self:
        """Replace each write of an event stream by others."""
        if self.pieces is not None:
            self.pieces = (new for piece in self.pieces for new in change(piece))
        return self


def _map_blocks(piece: bytes, change: Callable[[str], str]) -> bytes:
    blocks = piece.decode("utf-8", "surrogateescape").split("\n\n")
    changed = [change(block) if block else block for block in blocks]
    return "\n\n".join(changed).encode("utf-8", "surrogateescape")


Send = Callable[[Ask], Reply]
Mutation = Callable[[Ask, Send], Reply]


def faithful(ask: Ask, send: Send) -> Reply:
    """The mutation that changes nothing."""
    return send(ask)


class MutatingProxy:
    """A listening proxy. Use it as a context manager; `url` is what the suite is pointed at."""

    def __init__(self, upstream_url: str, mutation: Mutation = faithful) -> None:
        self._upstream = Address(upstream_url)
        self._mutation = mutation
        self.errors: list[Exception] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stop_accepting(self._listener, self._accepting)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        client = _Client(sock)
        with closing(sock), suppress(Exception):
            while (ask := client.read()) is not None:
                with ExitStack() as opened:
                    reply = self._mutate(ask, partial(self._send, opened))
                    if not client.write(ask, reply):
                        return

    def _mutate(self, ask: Ask, send: Send) -> Reply:
        """Apply the mutation. One that crashes proves nothing about the suite, so it is remembered."""
        try:
            return self._mutation(ask, send)
        except (OSError, WireError):
            raise
        except Exception as error:
            self.errors.append(error)
            raise

    def _send(self, opened: ExitStack, ask: Ask) -> Reply:
        connection = opened.enter_context(closing(Connection(self._upstream, 60)))
        request = Request(ask.method, ask.target, Headers(ask.fields), ask.body)
        connection.send(request.encode(self._upstream.host))
        status, reason, headers = connection.read_head()
        fields = [(name, value) for name, value in headers if name.lower() not in FRAMING]
        pieces = connection.body_pieces(ask.method, status, headers)
        if (headers.get("Content-Type") or "").startswith("text/event-stream") and ask.method == "GET":
            return Reply(status, fields, reason=reason, pieces=pieces, _upstream=connection)
        return Reply(status, fields, b"".join(pieces), reason)


class _Client:
    """The suite's side of the proxy: read requests, write replies."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def read(self) -> Ask | None:
        while b"\r\n\r\n" not in self._buffer:
            data = self._sock.recv(1 << 20)
            if not data:
                return None
            self._buffer += data
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        line, *rest = head.decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ", 2)
        fields = [(name, value.strip(" \t")) for name, _, value in (field.partition(":") for field in rest)]
        ask = Ask(method, target, fields)
        if ask.get("Transfer-Encoding").lower() == "chunked":
            ask.body = self._chunks()
            ask.drop("Transfer-Encoding")
        elif int(ask.get("Content-Length") or 0) < GIANT_BYTES:
            ask.body = self._take(int(ask.get("Content-Length") or 0))
            ask.drop("Content-Length")
        return ask

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._buffer += self._sock.recv(1 << 20)
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def _chunks(self) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in self._buffer:
                self._buffer += self._sock.recv(1 << 20)
            size, _, self._buffer = self._buffer.partition(b"\r\n")
            body += self._take(int(size, 16))
            self._take(2)
            if int(size, 16) == 0:
                return body

    def write(self, ask: Ask, reply: Reply) -> bool:
        """Write a reply; whether the connection can go on."""
        lines = [f"HTTP/1.1 {reply.status} {reply.reason}", *(f"{k}: {v}" for k, v in reply.fields)]
        if reply.pieces is not None:
            lines.append("Transfer-Encoding: chunked")
            self._sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
            return self._write_events(reply)
        bodyless = ask.method == "HEAD" or reply.status in {204, 304}
        if not bodyless:
            lines.append(f"Content-Length: {len(reply.body)}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        self._sock.sendall(head + (reply.body if reply.misframed or not bodyless else b""))
        return not ask.has("Content-Length")  # a giant was announced and never sent

    def _write_events(self, reply: Reply) -> bool:
        assert reply._upstream is not None
        assert reply.pieces is not None
        left = threading.Event()
        threading.Thread(target=self._watch, args=(reply._upstream, left), daemon=True).start()
        for piece in reply.pieces:
            if piece:
                self._sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        if reply.hang_open:
            left.wait(60)
        elif not left.is_set():
            self._sock.sendall(b"0\r\n\r\n")
        return False

    def _watch(self, upstream: Connection, left: threading.Event) -> None:
        """End the upstream connection when the reader leaves."""
        with suppress(OSError):
            self._sock.recv(1)
        left.set()
        with suppress(OSError):
            upstream.sock.shutdown(socket.SHUT_RDWR)
