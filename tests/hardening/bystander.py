"""An innocent client beside an attack: small requests on a connection of its own, and how long they took."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from running import Server
from wire.raw_connection import Wire


class Bystander:
    """How long its requests took, in seconds."""

    def __init__(self) -> None:
        self.times_s: list[float] = []

    @property
    def worst_s(self) -> float:
        return max(self.times_s)


@contextmanager
def bystander(server: Server, path: str = "/bystander") -> Iterator[Bystander]:
    """Let an innocent client read and append during an attack; fail if it is not answered."""
    watched, is_over = Bystander(), threading.Event()
    errors: list[BaseException] = []

    def ask(wire: Wire, method: str, status: int, body: bytes | None = None) -> None:
        began_s = time.monotonic()
        assert wire.ask(method, path, body).status == status
        watched.times_s.append(time.monotonic() - began_s)

    def run() -> None:
        try:
            with Wire(server.url) as wire:
                wire.socket.settimeout(120)  # an attack that works takes long, and is then reported as that
                while not is_over.is_set():
                    ask(wire, "POST", 204, b"x")
                    ask(wire, "GET", 200)
                    is_over.wait(0.002)
        except BaseException as error:
            errors.append(error)

    with Wire(server.url) as wire:
        assert wire.ask("PUT", path, b"x").status == 201
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield watched
    finally:
        is_over.set()
        thread.join()
    if errors:
        raise errors[0]
    assert watched.times_s, "the innocent client was never answered"
    print(f"{path}: {len(watched.times_s)} requests, at most {watched.worst_s * 1000:.0f} ms each")
