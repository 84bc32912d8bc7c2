"""A client that does nothing wrong, on a connection of its own, while others do.

It reads and appends a little, again and again, and notes how long it waited at most.
"""

import threading
import time

from wire.raw_connection import Wire

PAUSE_S = 0.002
STREAM = "/bystander"


class Bystander:
    """Runs for as long as its context lasts; every request of it must succeed."""

    def __init__(self, url: str, *, appends: bool = True) -> None:
        self.requests = 0
        self.worst_s = 0.0
        self._url = url
        self._appends = appends
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Bystander":
        with Wire(self._url) as wire:
            assert wire.ask("PUT", STREAM, b"").status in (200, 201)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        print(f"bystander: {self.requests} requests, the slowest after {self.worst_s * 1000:.0f} ms")
        if kind is None:
            assert self._failure is None, self._failure
            assert self.requests, "it was never answered"

    def _run(self) -> None:
        try:
            with Wire(self._url) as wire:
                while not self._stop.wait(PAUSE_S):
                    self._ask(wire, "GET", "?offset=now", None, 200)
                    self._ask(wire, "GET", "", None, 200, "/__ds/healthz")
                    if self._appends:
                        self._ask(wire, "POST", "", b"x", 204)
        except BaseException as error:
            self._failure = error

    def _ask(
        self, wire: Wire, method: str, query: str, body: bytes | None, status: int, path: str = STREAM
    ) -> None:
        began_s = time.monotonic()
        found = wire.ask(method, path + query, body)
        self.worst_s = max(self.worst_s, time.monotonic() - began_s)
        assert found.status == status, found
        self.requests += 1
