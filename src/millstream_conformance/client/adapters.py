"""A client's adapter: a process that executes commands, one JSON object per line in each direction.

One command is outstanding at a time. Its result must come within the limit, be one JSON object, and
name the command. An adapter that breaks these rules is killed, and another one is started for the
next case. The end of its stderr is kept and shown with a failure.

An adapter runs in its own process group and is killed with it: a child process that inherited the
pipes would otherwise keep the threads that read them waiting.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

LIMIT_S = 30.0
_GRACE_S = 2.0
"""How long to wait for the end of stderr, for a process to end, and for its pipes to be closed."""
CODES = frozenset((
    "NETWORK_ERROR", "TIMEOUT", "CONFLICT", "NOT_FOUND", "SEQUENCE_CONFLICT", "STREAM_CLOSED",
    "INVALID_OFFSET", "UNEXPECTED_STATUS", "PARSE_ERROR", "INTERNAL_ERROR", "NOT_SUPPORTED",
    "INVALID_ARGUMENT",
))  # fmt: skip
FEATURES = {
    "batching": "batching of appends",
    "sse": "server-sent events",
    "longPoll": "long-polling",
    "auto": "a live mode chosen by the client",
    "streaming": "reading in chunks as they arrive",
    "dynamicHeaders": "headers and parameters computed for each request",
    "retryOptions": "options for retries",
    "batchItems": "batches given as items",
    "strictZeroValidation": "refusal of zero where a positive number is needed",
}


class AdapterError(Exception):
    """The adapter broke the protocol of commands and results."""


class Adapter:
    """One running adapter."""

    def __init__(self, command: Sequence[str], server_url: str, *, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self.broken = False
        self.stderr: deque[str] = deque(maxlen=40)
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise AdapterError(f"the adapter cannot be started: {error}") from error
        self._threads = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        try:
            self._introduce(server_url)
        except AdapterError:
            self.close()
            raise

    def _introduce(self, server_url: str) -> None:
        hello = self.ask({"type": "init", "serverUrl": server_url, "timeoutMs": int(self._limit_s * 1000)})
        if hello.get("success") is not True or hello.get("type") != "init":
            raise AdapterError(f"init was not answered with success: {json.dumps(hello)[:300]}")
        self.features = _features(hello.get("features", {}))
        self.name = f"{hello.get('clientName', 'a client')} {hello.get('clientVersion', '')}".strip()

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command and return its result; AdapterError when there is no proper one."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=self._limit_s)
        except queue.Empty:
            raise self._broke(f"no answer to {command['type']} within {self._limit_s:g} s") from None
        except OSError as error:
            self._threads[-1].join(_GRACE_S)
            raise self._broke(f"the adapter no longer reads commands: {error}") from error
        if line is None:
            self._threads[-1].join(_GRACE_S)  # the end of stderr may not have been read yet
            raise self._broke(f"the adapter ended while {command['type']} was outstanding")
        try:
            result = json.loads(line)
        except ValueError:
            raise self._broke(f"a result must be one JSON object on a line, not {line[:200]!r}") from None
        if not isinstance(result, dict):
            raise self._broke(f"a result must be a JSON object, not {line[:200]!r}")
        return result

    def surplus(self) -> str | None:
        """A line beyond the results of the commands."""
        try:
            line = self._lines.get_nowait()
        except queue.Empty:
            return None
        if line is None:
            self.broken = True
            return None
        return line[:200].decode(errors="replace").strip()

    def close(self) -> None:
        """Ask it to end; kill it, with its children, if it does not."""
        if not self.broken and self._process.poll() is None:
            with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
                assert self._process.stdin is not None
                self._process.stdin.write(b'{"type": "shutdown"}\n')
                self._process.stdin.close()
                self._process.wait(_GRACE_S)
        self._kill_group()
        self._process.wait()
        for thread in self._threads:
            thread.join(_GRACE_S)
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _kill_group(self) -> None:
        """Kill the adapter and all processes that it started."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        elif self._process.poll() is None:
            self._process.kill()

    def _broke(self, why: str) -> AdapterError:
        self.broken = True
        return AdapterError(why)

    # The threads close the pipes that they read: closing one from outside would wait for the thread, and
    # a child in another process group may hold the other end open for as long as it lives.

    def _read_stdout(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.strip():
                    self._lines.put(line)
        self._lines.put(None)

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.stderr.append(line.decode(errors="replace").rstrip())


def _features(given: object) -> frozenset[str]:
    """The features of an `init` result: an object of booleans or a list of names."""
    if isinstance(given, dict):
        given = [name for name, has in given.items() if has]
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise AdapterError(f"`features` must be an object of booleans, not {json.dumps(given)[:300]}")
    return frozenset(given) & FEATURES.keys()


def _environment() -> dict[str, str]:
    """A copy of the environment, which another thread may be changing."""
    return {name: value for name in list(os.environ) if (value := os.environ.get(name)) is not None}
