"""Raw requests to a real server: it answers each at most once, and goes on serving others.

An input is what a client sends on one connection.
"""

import contextlib
import socket
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from hardening.fuzz import connections, requests
from hardening.fuzz.fuzzing import Check, Target
from running import millstream
from wire.raw_connection import Wire

LONG_POLL_MS = 1
SILENCE_S = 0.2  # after which nothing more comes: an event stream, or a request that is not whole


@contextmanager
def _opened() -> Iterator[Check]:
    with (
        millstream("--max-body-bytes", "100000", long_poll_ms=LONG_POLL_MS) as server,
        Wire(server.url) as bystander,
    ):

        def check(data: bytes) -> Hashable:
            received = _exchange(server.url, data)
            outcome = connections.judge(data, received, ended=True) if received is not None else None
            assert bystander.ask("GET", "/__ds/healthz").status == 200
            assert "Traceback" not in server.output(), server.output()
            return outcome

        yield check


def _exchange(url: str, data: bytes) -> bytes | None:
    """Send everything, then read until the server closes; None when that does not happen soon, or is a reset.

    What was received then may be cut anywhere, and proves nothing.
    """
    received = bytearray()
    with Wire(url) as wire, contextlib.suppress(ConnectionError, TimeoutError):
        wire.send(data)
        wire.socket.shutdown(socket.SHUT_WR)
        wire.socket.settimeout(SILENCE_S)
        while piece := wire.socket.recv(2**16):
            received += piece
        return bytes(received)
    return None


TARGET = Target("server", _opened, requests.generate, requests.TOKENS, corpus="requests")
