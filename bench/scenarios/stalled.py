"""What readers cost that stop reading: memory for each of them, while a stream grows at full speed.

The stream first grows without readers, as far as it does with them: what the server holds of it at most,
until a checkpoint has it, is not their price.
"""

import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

from bench.rounds import Effort, Sample, Scenario
from bench.scenarios.streams import PATH, connection, create, request
from tests.running import Server

READERS = 50
RECEIVE_BYTES = 8 * 1024  # of a reader's socket: what the kernels hold between them is soon full
APPEND_BYTES = 64 * 1024
APPENDS = 2_000
MIB = 2**20


def grow(server: Server) -> None:
    with connection(server) as opened:
        for number in range(APPENDS):
            request(opened, "POST", body=b"%09d" % number + b"x" * APPEND_BYTES)


def prepare(server: Server, effort: Effort) -> None:
    create(server)


def stall(server: Server) -> socket.socket:
    """Begin to follow the stream, and read no more than that it has begun."""
    parts = urlsplit(server.url)
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    reader.settimeout(60)
    reader.connect((parts.hostname, parts.port))
    reader.sendall(f"GET {PATH}?offset=now&live=sse HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    if not reader.recv(1024).startswith(b"HTTP/1.1 200"):
        raise RuntimeError("a reader was refused")
    return reader


def measure(server: Server, effort: Effort) -> Sample:
    """The growth of the server's peak, for each reader."""
    grow(server)
    before = server.peak_bytes()
    with ExitStack() as readers:
        for _ in range(READERS):
            readers.enter_context(stall(server))
        grow(server)
        return Sample((server.peak_bytes() - before) / READERS / MIB)


ALL = (
    Scenario(
        name="stalled-readers",
        title=f"memory, each of {READERS} SSE readers that stall",
        unit="MiB",
        measure=measure,
        prepare=prepare,
        less_is_better=True,
        fresh_servers=True,
        only_ours=True,
    ),
)
