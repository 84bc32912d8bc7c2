"""An innocent client beside an attack: small reads and appends on a connection of its own, all day long.

    with Bystander(server.url) as bystander:
        attack(server)
    assert bystander.worst_s < 2

It fails if any of its requests is refused or not answered.
"""

import threading
import time
from typing import Self

from wire.raw_connection import Wire

PAUSE_S = 0.005


class Bystander:
    """Asks until it is left, and measures the time of each request."""

    def __init__(self, url: str, **headers: str) -> None:
        self._url = url
        self._headers = headers
        self._times_s: list[float] = []
        self._failure: BaseException | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bystander")

    def __enter__(self) -> Self:
        with Wire(self._url) as wire:
            created = wire.ask("PUT", "/bystander", Content_Type="text/plain", **self._headers)
            assert created.status in (200, 201), created
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure
        assert self._times_s, "the bystander was never answered"
        print(f"bystander: {len(self._times_s)} requests, the slowest took {self.worst_s * 1000:.0f} ms")

    @property
    def worst_s(self) -> float:
        return max(self._times_s)

    def _run(self) -> None:
        try:
            with Wire(self._url) as wire:
                wire.socket.settimeout(60)
                while not self._times_s or not self._done.is_set():
                    for method, body, status in (("POST", b"x", 204), ("GET", None, 200)):
                        began_s = time.monotonic()
                        answer = wire.ask(method, "/bystander", body, **self._headers)
                        self._times_s.append(time.monotonic() - began_s)
                        assert answer.status == status, answer
                    time.sleep(PAUSE_S)
        except BaseException as failure:
            self._failure = failure
