"""Several processes on one port: each is a whole server, and a database is what they share.

        parent    binds the port, forks, passes signals on, replaces a process that has died
        children  accept on the same socket; the system gives each connection to one of them

A process that fails before it is ready ends all of them, since the next one would fail in the same way. If
the parent is killed, the others stop. It holds no connection and no stream.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType

import msgspec

from millstream.server.settings import SettingsError
from millstream.server.systemd import notify
from millstream.server.telemetry import logs

_BACKLOG = 2048
_PAUSE_S = 0.5  # before a process that has died is replaced

_log = logging.getLogger("millstream")


class Child(msgspec.Struct, frozen=True):
    """What a forked process has to know: its socket, its number, and how to say that it is ready."""

    listening: socket.socket
    number: int
    ready: Callable[[str], None]
    parent: int
    """A file that can be read when the parent has ended, however that was."""

    def call_when_alone(self, call: Callable[[], None]) -> None:
        """Call something when the parent has ended."""
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self.parent)
            logs.event(_log, logging.ERROR, "the process that replaces others has ended; stopping")
            call()

        loop.add_reader(self.parent, ended)


def fork(host: str, port: int, count: int, announce: Callable[[str], None]) -> Child:
    """Fork processes; returns in each of them. The parent stays here until all have ended, then exits."""
    parent = _Parent(bind(host, port), announce)
    for number in range(count):
        child = parent.add(number)
        if child is not None:
            return child
    return parent.run()


def bind(host: str, port: int) -> socket.socket:
    """Bind a port, for processes that will listen on it."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(found[4][:2], family=found[0], backlog=_BACKLOG)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror or error}.") from None


class _Parent:
    """The process that the others are forked from."""

    def __init__(self, listening: socket.socket, announce: Callable[[str], None]) -> None:
        self._listening = listening
        self._announce = announce
        self._reading, self._writing = os.pipe()
        self._alive, self._held = os.pipe()  # only the parent holds the end for writing, as long as it lives
        self._children: dict[int, int] = {}
        self._unready: set[int] = set()
        self._is_stopping = False
        self._code = 0

    def add(self, number: int) -> Child | None:
        """Fork a process; gives what it has to know in that process, and nothing in this one."""
        pid = os.fork()
        if pid:
            self._children[pid] = number
            self._unready.add(pid)
            return None
        os.close(self._reading)
        os.close(self._held)
        writing = self._writing

        def ready(url: str) -> None:
            os.write(writing, f"{os.getpid()} {url}\n".encode())  # short: it arrives whole

        return Child(self._listening, number, ready, self._alive)

    def run(self) -> Child:
        """Look after the processes; returns in those that replace one, and exits in this one."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._pass_on)
        if not self._wait_until_ready():
            self._stop()
        while self._children:
            pid, status = os.wait()
            place = self._children.pop(pid, None)
            code = os.waitstatus_to_exitcode(status)
            if self._is_stopping or place is None:
                self._code = self._code or max(code, 0)
                continue
            logs.event(_log, logging.ERROR, "a process has died, and is replaced", pid=pid, code=code)
            time.sleep(_PAUSE_S)
            child = self.add(place)
            if child is not None:
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)  # until its own handlers are there
                return child
        sys.exit(self._code)

    def _wait_until_ready(self) -> bool:
        """Wait until all processes accept connections, and say so; False when one has ended instead."""
        os.set_blocking(self._reading, False)
        text = b""
        while self._unready and not self._is_stopping:
            try:
                text += os.read(self._reading, 4096)
            except BlockingIOError:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid:
                    self._children.pop(pid, None)
                    self._code = os.waitstatus_to_exitcode(status)
                    return False
                time.sleep(0.01)
            self._unready -= {int(line.split()[0]) for line in text.splitlines() if b" " in line}
        if self._unready:
            return True  # it was asked to stop
        self._announce(text.splitlines()[0].split()[1].decode())
        notify("READY=1")
        return True

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGHUP:
            self._is_stopping = True
        self._signal(number)

    def _stop(self) -> None:
        self._is_stopping = True
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for pid in list(self._children):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
