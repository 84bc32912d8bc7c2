"""Resolving host names, so that names whose resolver hangs hold up no others.

`getaddrinfo` blocks a thread, for as long as the resolver takes: half a minute, if a name's servers do not
answer. Whoever creates webhooks chooses the names. So there are two lanes of threads:

        known     names that resolved quickly the last time
        others    new names, and those that failed or were slow

and a name is looked up once at a time, however many deliveries wait for it. Threads are daemons: a server
that stops does not wait for a resolver.
"""

import asyncio
import contextlib
import ipaddress
import queue
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from millstream.protocol.webhook_targets import Address

_KNOWN_THREADS: Final = 8
_OTHER_THREADS: Final = 24
_QUICK_S: Final = 1.0
_MAX_KNOWN: Final = 4096

Found = Sequence[Address] | OSError
_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Sequence[Address]]"]


def look_up(host: str) -> Sequence[Address]:
    """Ask the system's resolver for all addresses of a name; blocks."""
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    found = dict.fromkeys(ipaddress.ip_address(info[4][0]) for info in infos)
    return list(found)


class Resolver:
    """Resolves names on its own threads."""

    def __init__(self, look_up: Callable[[str], Sequence[Address]] = look_up) -> None:
        self._look_up = look_up
        self._lock = threading.Lock()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._waiting: dict[str, list[_Waiter]] = {}
        self._known_lane = _Lane(_KNOWN_THREADS, self._run)
        self._other_lane = _Lane(_OTHER_THREADS, self._run)

    async def resolve(self, host: str) -> Sequence[Address]:
        """Give all addresses of a name; OSError if it has none."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[Address]] = loop.create_future()
        with self._lock:
            waiters = self._waiting.get(host)
            if waiters is not None:
                waiters.append((loop, future))
            else:
                self._waiting[host] = [(loop, future)]
                (self._known_lane if host in self._known else self._other_lane).submit(host)
        return await future

    def _run(self, host: str) -> None:
        found: Found
        started_s = time.monotonic()
        if self._is_abandoned(host):
            return
        try:
            found = self._look_up(host)
        except (OSError, UnicodeError) as error:  # UnicodeError: a label that IDNA does not encode
            found = error if isinstance(error, OSError) else OSError(str(error))
        with self._lock:
            self._remember(host, not isinstance(found, OSError) and time.monotonic() - started_s < _QUICK_S)
            waiters = self._waiting.pop(host)
        for loop, future in waiters:
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                loop.call_soon_threadsafe(_settle, future, found)

    def _is_abandoned(self, host: str) -> bool:
        """Tell whether all who asked have given up, and forget the lookup then."""
        with self._lock:
            if any(not future.done() for _, future in self._waiting[host]):
                return False
            del self._waiting[host]
            return True

    def _remember(self, host: str, is_quick: bool) -> None:
        self._known.pop(host, None)
        if is_quick:
            self._known[host] = None
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)


def _settle(future: "asyncio.Future[Sequence[Address]]", found: Found) -> None:
    if future.done():
        return
    if isinstance(found, OSError):
        future.set_exception(found)
    else:
        future.set_result(found)


class _Lane:
    """A queue, and threads that are started when it is used."""

    def __init__(self, max_threads: int, run: Callable[[str], None]) -> None:
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._left = max_threads
        self._run = run

    def submit(self, host: str) -> None:
        """Queue a lookup; the caller holds the resolver's lock."""
        self._queue.put(host)
        if self._left:
            self._left -= 1
            threading.Thread(target=self._work, name="resolver", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._run(self._queue.get())
