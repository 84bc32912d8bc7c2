"""An innocent client beside an attack: small reads and appends on a connection of its own.

    with Bystander(server) as bystander:
        attack(server)
    assert bystander.most_work_s < 2

It fails if any of its requests is refused or not answered. What is asserted is not a time on the clock, which
is long on a busy machine, but how much the server worked while a request waited: what a server does for an
attacker before it answers another one takes as much of the processor on any machine.

`python -m bench.bystander` runs all tests that have one, and prints how long the requests took.
"""

import contextlib
import os
import ssl
import threading
import time
from pathlib import Path
from typing import ClassVar, Self

from running import Server
from wire.raw_connection import Wire

PAUSE_S = 0.003
PATIENCE_S = 60
STREAM = "/bystander"


def processor_s(pid: int) -> float:
    """The processor time that a process has used in all threads; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bystander:
    """Asks for as long as its context lasts, and measures the time of each request."""

    finished: ClassVar[list["Bystander"]] = []
    """Those of this process whose context has ended."""

    def __init__(
        self, server: Server, *, appends: bool = True, trust: ssl.SSLContext | None = None, **headers: str
    ) -> None:
        self.times_s: list[float] = []
        self.most_work_s = 0.0
        """The most processor time that the server has used between a request and its answer."""
        self.peak_bytes = 0
        """The most memory that the server has had meanwhile; known at the end."""
        self._server = server
        self._appends = appends
        self._trust = trust
        self._headers = headers
        self._failure: BaseException | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bystander", daemon=True)

    @property
    def worst_s(self) -> float:
        """The time of the slowest request."""
        return max(self.times_s, default=0.0)

    def __enter__(self) -> Self:
        self._wire = Wire(self._server.url, self._trust)
        self._wire.socket.settimeout(PATIENCE_S)
        created = self._wire.ask("PUT", STREAM, Content_Type="text/plain", **self._headers)
        assert created.status in (200, 201), created
        with contextlib.suppress(OSError):  # not allowed everywhere; then the peak is that since the start
            Path(f"/proc/{self._server.pid}/clear_refs").write_text("5")  # forgets the peak
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._done.set()
        self._thread.join(PATIENCE_S)
        self._wire.socket.close()
        if self._server.exit_code is None:
            self.peak_bytes = self._server.peak_bytes()
        self.finished.append(self)
        count, worst_ms = len(self.times_s), self.worst_s * 1000
        print(
            f"bystander: {count} requests, the slowest took {worst_ms:.0f} ms, "
            f"the server worked at most {self.most_work_s * 1000:.0f} ms meanwhile"
        )
        if kind is None:
            if self._failure is not None:
                raise self._failure
            assert self.times_s, "the bystander was never answered"

    def _run(self) -> None:
        try:
            while not self.times_s or not self._done.wait(PAUSE_S):
                self._ask("GET", f"{STREAM}?offset=now", None, 200)
                self._ask("GET", "/__ds/healthz", None, 200)
                if self._appends:
                    self._ask("POST", STREAM, b"x", 204)
        except BaseException as failure:
            self._failure = failure

    def _ask(self, method: str, target: str, body: bytes | None, status: int) -> None:
        worked_s, began_s = processor_s(self._server.pid), time.monotonic()
        answer = self._wire.ask(method, target, body, **self._headers)
        self.times_s.append(time.monotonic() - began_s)
        self.most_work_s = max(self.most_work_s, processor_s(self._server.pid) - worked_s)
        assert answer.status == status, answer
