"""An innocent client beside an attack: small reads and appends on a connection of its own.

    with Bystander(server.url) as bystander:
        attack(server)
    assert bystander.worst_s < 2

It fails if any of its requests is refused or not answered.
"""

import threading
import time
from typing import Self

from wire.raw_connection import Wire

PAUSE_S = 0.003
PATIENCE_S = 60
STREAM = "/bystander"


class Bystander:
    """Asks for as long as its context lasts, and measures the time of each request."""

    def __init__(self, url: str, *, appends: bool = True, **headers: str) -> None:
        self.requests = 0
        self.worst_s = 0.0
        self._url = url
        self._appends = appends
        self._headers = headers
        self._failure: BaseException | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bystander", daemon=True)

    def __enter__(self) -> Self:
        with Wire(self._url) as wire:
            created = wire.ask("PUT", STREAM, Content_Type="text/plain", **self._headers)
            assert created.status in (200, 201), created
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._done.set()
        self._thread.join(PATIENCE_S)
        print(f"bystander: {self.requests} requests, the slowest took {self.worst_s * 1000:.0f} ms")
        if kind is None:
            if self._failure is not None:
                raise self._failure
            assert self.requests, "the bystander was never answered"

    def _run(self) -> None:
        try:
            with Wire(self._url) as wire:
                wire.socket.settimeout(PATIENCE_S)
                while not self.requests or not self._done.wait(PAUSE_S):
                    self._ask(wire, "GET", f"{STREAM}?offset=now", None, 200)
                    self._ask(wire, "GET", "/__ds/healthz", None, 200)
                    if self._appends:
                        self._ask(wire, "POST", STREAM, b"x", 204)
        except BaseException as failure:
            self._failure = failure

    def _ask(self, wire: Wire, method: str, target: str, body: bytes | None, status: int) -> None:
        began_s = time.monotonic()
        answer = wire.ask(method, target, body, **self._headers)
        self.worst_s = max(self.worst_s, time.monotonic() - began_s)
        assert answer.status == status, answer
        self.requests += 1
