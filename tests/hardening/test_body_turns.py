"""Far more large bodies at once than there is room for: honest ones are read, whatever slow ones do (H4)."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

import pytest

from hardening.bystander import Bystander
from running import Server, millstream, uvicorn_server
from wire.raw_connection import Wire, request

KIB, MIB = 2**10, 2**20
CLIENTS = 200
MOST_WORK_S = 2.0
PATIENCE_S = 120
SCALE = 8  # the defaults and bodies of 15 MiB, but smaller
LIMITS = {"max_body_bytes": 16 * MIB // SCALE, "max_bodies_bytes": 48 * MIB // SCALE, "retain_bytes": 1000}
BODY = b"x" * (15 * MIB // SCALE)

Running = Callable[..., AbstractContextManager[Any]]


def native(**settings: int) -> AbstractContextManager[Server]:
    options = [
        text for name, value in settings.items() for text in (f"--{name.replace('_', '-')}", str(value))
    ]
    return millstream(*options)


SERVERS: dict[str, Running] = {"native": native, "asgi": uvicorn_server}


def upload(url: str, path: str, body: bytes) -> int:
    """Append a body until it is accepted; give how often it was refused."""
    for refusals in range(1_000):
        connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
        try:
            connection.request("POST", path, body, {"Content-Type": "text/plain"})
            answer = connection.getresponse()
            answer.read()
        except (ConnectionError, HTTPException):  # it was refused while it was sent
            time.sleep(1)
            continue
        finally:
            connection.close()
        if answer.status == 204:
            return refusals
        assert answer.status == 503, answer.status
        time.sleep(int(answer.headers["Retry-After"]))
    raise AssertionError("it is refused again and again")


@pytest.mark.parametrize("which", SERVERS)
def test_all_who_are_not_slow_are_read_to_their_end(which: str) -> None:
    with SERVERS[which](**LIMITS) as server:
        with Wire(server.url) as wire:
            assert wire.ask("PUT", "/s", Content_Type="text/plain").status == 201
        with Bystander(server) as bystander, ThreadPoolExecutor(CLIENTS) as clients:
            refusals = list(clients.map(lambda _: upload(server.url, "/s", BODY), range(CLIENTS)))
        assert bystander.most_work_s < MOST_WORK_S
        with Wire(server.url) as wire:
            tail = wire.ask("HEAD", "/s").headers["stream-next-offset"]
        print(f"{CLIENTS} bodies, {sum(refusals)} refusals, at {tail}")
        assert int(tail.rpartition("_")[2]) == CLIENTS * len(BODY)
        assert sum(refusals) < 20 * CLIENTS, "those that have begun are not given up for others"


BEGUN = {"Content_Type": "text/plain", "Content_Length": str(16 * MIB)}
CHUNKED = {"Content_Type": "text/plain", "Transfer_Encoding": "chunked"}
ATTACKS = {
    "nothing": (BEGUN, 0),
    "100 KB": (BEGUN, 100_000),
    "1 MiB": (BEGUN, MIB),
    "100 KB in chunks": (CHUNKED, 100_000),
    "almost all": (BEGUN, 15 * MIB),
}


@contextlib.contextmanager
def attackers(server: Any, headers: dict[str, str], sent: int) -> Iterator[None]:
    """Clients that each send so much of a body, as far as it is read, and then a byte now and then."""
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.url)) for _ in range(CLIENTS)]
        body = b"%x\r\n" % (16 * MIB) + bytes(sent) if headers is CHUNKED else bytes(sent)
        unsent = {}
        for wire in wires:
            wire.send(request("POST", "/s", **headers))
            wire.socket.setblocking(False)
            unsent[wire.socket] = memoryview(body)
        done = threading.Event()

        def send() -> None:
            while not done.wait(0.05):
                for connection, rest in list(unsent.items()):
                    try:
                        unsent[connection] = rest[connection.send(rest or b"x") :]
                    except BlockingIOError:
                        pass
                    except OSError:
                        del unsent[connection]

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize("attack", ATTACKS)
def test_slow_bodies_hold_up_no_other_for_long(attack: str) -> None:
    """Those that stall lose their turns, and those that wait are refused after the time for a body."""
    with millstream("--body-timeout-s", "5") as server:
        with Wire(server.url) as wire:
            assert wire.ask("PUT", "/s", Content_Type="text/plain").status == 201
        with Bystander(server) as bystander, attackers(server, *ATTACKS[attack]):
            began_s = time.monotonic()
            refusals = [upload(server.url, "/s", bytes(15 * MIB)) for _ in range(2)]
            print(f"{attack}: two uploads took {time.monotonic() - began_s:.1f} s, refusals {refusals}")
        assert bystander.most_work_s < MOST_WORK_S
        assert sum(refusals) < 20
