"""Starts the command `millstream` without loading it again for each start.

Tests start it many hundred times, as a server or to run one verb. Loading Python, typer and millstream
takes 0.5 to 0.8 s of processor time at each start, more than most tests take. So one process loads them
once and forks. The child is a process of its own, with its own files, environment and signals, and does
what `python -m millstream` does after its imports.

    test                                   forking process
      request, three descriptors  ──────▶    fork ──▶ child: takes the descriptors, runs the command
      pid                         ◀──────
      exit code                   ◀──────    when the child has ended

A variable that is only read while Python starts or a module loads needs a new interpreter, and so does
a system other than Linux: then `start` and `run` use `subprocess`. Tests that must see a new interpreter
call `subprocess` themselves.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import running

COMMAND = [sys.executable, "-m", "millstream"]
_UNBUFFERED = "PYTHONUNBUFFERED"
_READ_WHILE_LOADING = ("PYTHON", "LC_", "LANG", "MILLSTREAM_FAILPOINT")
_LOADED = (
    "millstream.cli.main",
    "millstream.cli.groups",
    "millstream.server.run",
)
_LOADED_BY_TYPER = "typer._adapters"  # in the versions that have it, when there is something to parse
_START_TIMEOUT_S = 60
_MAX_REQUEST_BYTES = 1 << 20


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    descriptors: tuple[int, int, int],
    cwd: Path | None = None,
    start_new_session: bool = False,
) -> running.Process:
    """Start a command with these descriptors as its standard input, output and error."""
    if can_fork(command, environment):
        return Process(
            command[len(COMMAND) :],
            environment=environment,
            descriptors=descriptors,
            cwd=cwd,
            start_new_session=start_new_session,
        )
    return running.start_interpreter(
        command,
        environment=environment,
        descriptors=descriptors,
        cwd=cwd,
        start_new_session=start_new_session,
    )


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    cwd: Path | None = None,
    timeout_s: float,
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command to its end with pipes for its files, as `subprocess.run` does."""
    (in_end, to_child), (from_out, out_end), (from_err, err_end) = os.pipe(), os.pipe(), os.pipe()
    try:
        process = start(command, environment=environment, descriptors=(in_end, out_end, err_end), cwd=cwd)
    finally:
        for end in (in_end, out_end, err_end):
            os.close(end)
    found: dict[int, bytes] = {}
    threads = [
        threading.Thread(target=_write, args=(to_child, stdin)),
        threading.Thread(target=_read, args=(from_out, found)),
        threading.Thread(target=_read, args=(from_err, found)),
    ]
    for thread in threads:
        thread.start()
    try:
        code = process.wait(timeout_s)
    finally:
        process.kill()
        for thread in threads:
            thread.join()
    return subprocess.CompletedProcess(command, code, found[from_out], found[from_err])


def _write(descriptor: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb") as pipe:
        pipe.write(content)


def _read(descriptor: int, found: dict[int, bytes]) -> None:
    with open(descriptor, "rb") as pipe:
        found[descriptor] = pipe.read()


def can_fork(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a forked child does what a new interpreter would do with this command."""
    if sys.platform != "linux" or list(command[: len(COMMAND)]) != COMMAND:
        return False
    return not any(
        name.startswith(_READ_WHILE_LOADING) and name != _UNBUFFERED
        for name in environment.keys() | os.environ.keys()
        if environment.get(name) != os.environ.get(name)
    )


class Process:
    """A running command; the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        descriptors: tuple[int, int, int],
        cwd: Path | None = None,
        start_new_session: bool = False,
    ) -> None:
        self.returncode: int | None = None
        self._lock = threading.Lock()
        request = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "cwd": str(cwd or Path.cwd()),
            "session": start_new_session,
        }
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._connection.settimeout(_START_TIMEOUT_S)
            self._connection.connect(_forker().address)
            body = json.dumps(request).encode()
            socket.send_fds(self._connection, [body], list(descriptors))
            self.pid = int(self._connection.recv(64))
        except BaseException:
            self._connection.close()
            raise

    def poll(self) -> int | None:
        """Give the exit code, or None while the process runs."""
        return self._receive(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, as `subprocess.Popen.wait` does."""
        code = self._receive(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(COMMAND, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _receive(self, timeout: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
                self.returncode = int(self._connection.recv(64))
                self._connection.close()
            return self.returncode


class _Forker:
    """The forking process of this process, and where it listens."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forking-")
        self.address = str(Path(self._folder.name) / "socket")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(self.address)
        listener.listen(64)
        self._stop, theirs = os.pipe()[::-1]
        with listener:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(listener.fileno()), str(theirs)],
                pass_fds=(listener.fileno(), theirs),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl+C is for the tests
            )
        os.close(theirs)

    def stop(self) -> None:
        """Let the process end; it does so, too, when this one is killed."""
        os.close(self._stop)
        self._process.wait(_START_TIMEOUT_S)
        self._folder.cleanup()


@functools.cache
def _forker() -> _Forker:
    made = _Forker()
    atexit.register(made.stop)
    return made


# -- The forking process ---------------------------------------------------------------------------


def _load() -> None:
    """Import what a command and a server need, and keep it out of the children's garbage collections."""
    for name in _LOADED:
        importlib.import_module(name)
    for verb in importlib.import_module("millstream.cli.verbs").VERBS.values():
        if hasattr(verb, "load"):
            verb.load()
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module(_LOADED_BY_TYPER)
    gc.collect()
    gc.freeze()


def _fork_for_each(listener: socket.socket, stop: int) -> dict[str, Any] | None:
    """Fork for each request and report each end. Returns a request in a child, None at the end."""
    waking, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    children: dict[int, socket.socket] = {}
    while True:
        ready = select.select([listener, waking, stop], [], [])[0]
        if stop in ready:
            return None
        if waking in ready:
            os.read(waking, 4096)
            _report_ends(children)
        if listener in ready:
            connection, _ = listener.accept()
            body, descriptors, _, _ = socket.recv_fds(connection, _MAX_REQUEST_BYTES, 3)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (listener, connection, *children.values()):
                    one.close()
                for end in (waking, wake, stop):
                    os.close(end)
                for target, descriptor in enumerate(descriptors):
                    os.dup2(descriptor, target)
                for descriptor in descriptors:
                    os.close(descriptor)
                request: dict[str, Any] = json.loads(body)
                return request
            for descriptor in descriptors:
                os.close(descriptor)
            children[pid] = connection
            connection.send(str(pid).encode())


def _report_ends(children: dict[int, socket.socket]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        with children.pop(pid) as connection, contextlib.suppress(OSError):
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: dict[str, Any]) -> None:
    """Be what a new interpreter would be, and run the command."""
    if request["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    is_unbuffered = _UNBUFFERED in os.environ
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  for as long as the process lives
    sys.stdout = _text_output(1, "strict", is_unbuffered)
    sys.stderr = _text_output(2, "backslashreplace", True)
    sys.argv = ["millstream", *request["arguments"]]
    from millstream.cli.main import run as run_command

    run_command()


def _text_output(descriptor: int, errors: str, is_unbuffered: bool) -> io.TextIOWrapper:
    raw = open(descriptor, "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, errors=errors, write_through=is_unbuffered, line_buffering=is_unbuffered)


if __name__ == "__main__":
    _load()
    wanted = _fork_for_each(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    if wanted is not None:
        _become(wanted)
