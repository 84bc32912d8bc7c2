"""Real servers in real processes, for tests and benchmarks that go through the wire.

A test that calls the application in its own process shares its event loop, its buffers and its
mistakes. Everything here starts what a user would start, waits until it accepts connections, and
ends it as an operator would: SIGTERM first, SIGKILL only if it does not stop in time.

    with millstream("--max-chunk-bytes", "4096") as server:
        httpx.put(server.url + "/chat")

A server that cannot start, dies, logs a traceback or leaves with an error fails the test that used
it, with everything it printed in the message.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.01
PORT_TRIES = 1000

PATIENT_MS = (
    20_000  # for a long-poll that something ends: however slow the machine, it does not end by itself
)
RAW_HOST = "h"  # what requests that tests write byte by byte have in Host
HASTY_MS = 500  # for tests that wait until one ends by itself

_OWN_PORTS = (12_000, 32_000)  # Linux gives ports from 32,768 on, macOS from 49,152
_dice = random.SystemRandom()  # not the shared one: a test that seeds it would repeat its ports


class ServerFactory(Protocol):
    """Starts a server for as long as the context lasts."""

    def __call__(self, *, long_poll_ms: int = PATIENT_MS) -> AbstractContextManager["Server"]: ...


class ServerFailedError(Exception):
    """A server did not start, or did not end well; the message holds its output."""


class Process(Protocol):
    """What is used of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int, /) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Start(Protocol):
    """Starts a process with three descriptors as its standard input, output and error."""

    def __call__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        descriptors: tuple[int, int, int],
        start_new_session: bool,
    ) -> Process: ...


def start_interpreter(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    descriptors: tuple[int, int, int],
    start_new_session: bool = False,
    cwd: Path | None = None,
) -> Process:
    """Start a command as a user would; what benchmarks measure."""
    stdin, stdout, stderr = descriptors
    return subprocess.Popen(
        command,
        env=environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        start_new_session=start_new_session,
    )


start_process: Start = start_interpreter  # tests replace it by `forking.start`


class Server:
    """One running server process and everything it has printed."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.url = ""
        self._command = command
        # A file, not a pipe: it needs no reader, so the server can never block on its own log.
        self._log: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop)
        with Path(os.devnull).open() as nothing:
            self._process = start_process(
                command,
                environment={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                descriptors=(nothing.fileno(), self._log.fileno(), self._log.fileno()),
                start_new_session=True,  # so that workers of a server can be ended with it
            )
        self._output = ""
        self._is_stopping = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the process ended, or None while it runs."""
        return self._process.poll()

    def output(self) -> str:
        """What the server has printed so far; still there after `stop`."""
        if not self._log.closed:
            size = os.fstat(self._log.fileno()).st_size
            self._output = os.pread(self._log.fileno(), size, 0).decode(errors="replace")
        return self._output

    def peak_bytes(self) -> int:
        """The most memory that the process has had; 0 where the system does not say."""
        status = Path(f"/proc/{self.pid}/status")
        return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024 if status.exists() else 0

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._is_stopping |= number in (signal.SIGTERM, signal.SIGINT)

    def wait_until(self, is_ready: Callable[[], bool], timeout_s: float = START_TIMEOUT_S) -> None:
        """Block until the server is ready; fail at once when it dies, and at the deadline."""
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if self.exit_code is not None:
                raise self.failed(f"ended with {self.exit_code} before it was ready")
            if time.monotonic() > deadline:
                raise self.failed(f"was not ready within {timeout_s:g} s")
            time.sleep(POLL_S)

    def wait_for_exit(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait until the server has ended by itself, and give its exit code."""
        return self._process.wait(timeout_s)

    def stop(self) -> int:
        """End the server, politely first, and give its exit code; a second call changes nothing."""
        if self._process.poll() is None:
            if not self._is_stopping:  # a second signal would end it without draining
                self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        self.output()
        self._log.close()
        return code

    def failed(self, reason: str) -> ServerFailedError:
        return ServerFailedError(f"{' '.join(self._command)}\n{reason}; it printed:\n{self.output()}")


@contextmanager
def started(
    command: Sequence[str],
    wait: Callable[[Server], None],
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run `command`, let `wait` hold until it serves and set its URL, and end it afterwards."""
    server = Server(command, environment or {})
    try:
        wait(server)
        yield server
    except ServerFailedError:
        raise
    except Exception as error:
        error.add_note(f"The server printed:\n{server.output()}")
        raise
    finally:
        server.stop()


@contextmanager
def millstream(*arguments: str, long_poll_ms: int = PATIENT_MS) -> Iterator[Server]:
    """`millstream serve` in memory on a free port; extra arguments win over these defaults."""
    command = [sys.executable, "-m", "millstream", "serve", "--host", "127.0.0.1", "--port", "0"]
    command += ["--store", "memory", "--long-poll-timeout-ms", str(long_poll_ms)]
    command += ["--allowed-hosts", RAW_HOST, "--webhook-localhost", "allow", *arguments]
    with started(command, announced) as server:
        yield server
        if server.stop() != 0:
            raise server.failed(f"left with {server.exit_code}")
        if "Traceback" in server.output():
            raise server.failed("logged an error")


@contextmanager
def durable_millstream(*arguments: str, long_poll_ms: int = PATIENT_MS) -> Iterator[Server]:
    """`millstream serve` with the durable engine on a folder of its own, which goes with it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        millstream("--store", "log", "--data", folder, *arguments, long_poll_ms=long_poll_ms) as server,
    ):
        yield server


@contextmanager
def uvicorn_server(*, long_poll_ms: int = PATIENT_MS, **settings: object) -> Iterator[Server]:
    """The ASGI app under uvicorn, with settings by their names."""
    port = free_port()
    command = ["uvicorn", "millstream.asgi:app", "--host", "127.0.0.1", "--port", str(port)]
    with _asgi([*command, "--log-level", "warning"], port, long_poll_ms, **settings) as server:
        yield server


@contextmanager
def granian_server(*, long_poll_ms: int = PATIENT_MS, **settings: object) -> Iterator[Server]:
    """The ASGI app under Granian: another parser, another event loop, written in Rust."""
    port = free_port()
    command = ["granian", "--interface", "asgi", "millstream.asgi:app", "--host", "127.0.0.1"]
    with _asgi(
        [*command, "--port", str(port), "--workers", "1", "--log-level", "warning"],
        port,
        long_poll_ms,
        **settings,
    ) as server:
        yield server


@contextmanager
def hypercorn_server(*, long_poll_ms: int = PATIENT_MS, **settings: object) -> Iterator[Server]:
    """The ASGI app under Hypercorn: HTTP/1.1, and HTTP/2 for a client that begins with it."""
    port = free_port()
    command = ["hypercorn", "millstream.asgi:app", "--bind", f"127.0.0.1:{port}", "--log-level", "warning"]
    with _asgi(command, port, long_poll_ms, **settings) as server:
        yield server


def free_port() -> int:
    """A free port, for servers that cannot report which one they were given.

    It is outside the range from which the system picks ports by itself. One from that range could be
    given to another process between this call and the start of the server.
    """
    for _ in range(PORT_TRIES):
        port = _dice.randrange(*_OWN_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ServerFailedError(f"none of {PORT_TRIES} ports is free")


def announced(server: Server) -> None:
    """Wait for the server's banner and take the URL from it."""

    def is_ready() -> bool:
        banner = re.search(r"https?://127\.0\.0\.1:\d+", server.output())
        server.url = banner[0] if banner else ""
        return bool(banner)

    server.wait_until(is_ready)


def listening_on(port: int, timeout_s: float = START_TIMEOUT_S) -> Callable[[Server], None]:
    """Wait until something accepts connections on `port`."""

    def wait(server: Server) -> None:
        server.url = f"http://127.0.0.1:{port}"
        server.wait_until(lambda: _accepts(port), timeout_s)

    return wait


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _asgi(
    module_and_arguments: Sequence[str], port: int, long_poll_ms: int, **settings: object
) -> AbstractContextManager[Server]:
    settings = {"store": "memory", "long_poll_timeout_ms": long_poll_ms, **settings}
    environment = {f"MILLSTREAM_{name.upper()}": str(value) for name, value in settings.items()}
    return started([sys.executable, "-m", *module_and_arguments], listening_on(port), environment)
