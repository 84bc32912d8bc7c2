"""A client's adapter: a process that does what it is told, one JSON object a line each way.

One command is outstanding at a time. The answer must come within the limit, be one JSON object,
and say which command it answers. An adapter that breaks this is ended and started again for the
next case. What it writes to stderr is kept, and shown when something fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

LIMIT_S = 30.0
_LAST_WORDS_S = 2.0
CODES = frozenset((
    "NETWORK_ERROR", "TIMEOUT", "CONFLICT", "NOT_FOUND", "SEQUENCE_CONFLICT", "STREAM_CLOSED",
    "INVALID_OFFSET", "UNEXPECTED_STATUS", "PARSE_ERROR", "INTERNAL_ERROR", "NOT_SUPPORTED",
    "INVALID_ARGUMENT",
))  # fmt: skip
FEATURES = {
    "batching": "batching of appends",
    "sse": "server-sent events",
    "longPoll": "long-polling",
    "auto": "a live mode that the client chooses itself",
    "streaming": "reading in chunks as they come",
    "dynamicHeaders": "headers and parameters that are computed for each request",
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
        features = hello.get("features", {})
        named = [name for name, has in features.items() if has] if isinstance(features, dict) else features
        self.features = frozenset(named) & FEATURES.keys()
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
            self._threads[-1].join(_LAST_WORDS_S)
            raise self._broke(f"the adapter does not take commands any more: {error}") from error
        if line is None:
            self._threads[-1].join(_LAST_WORDS_S)  # what it said on stderr may still be on its way
            raise self._broke(f"the adapter ended while {command['type']} was outstanding")
        try:
            result = json.loads(line)
        except ValueError:
            raise self._broke(f"a result must be one JSON object on a line, not {line[:200]!r}") from None
        if not isinstance(result, dict):
            raise self._broke(f"a result must be a JSON object, not {line[:200]!r}")
        return result

    def surplus(self) -> str | None:
        """A line that nobody asked for."""
        try:
            line = self._lines.get_nowait()
        except queue.Empty:
            return None
        if line is None:
            self.broken = True
            return None
        return line[:200].decode(errors="replace").strip()

    def close(self) -> None:
        """Ask it to end, and end it if it does not."""
        if not self.broken and self._process.poll() is None:
            with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
                assert self._process.stdin is not None
                self._process.stdin.write(b'{"type": "shutdown"}\n')
                self._process.stdin.close()
                self._process.wait(2)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(2)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _broke(self, why: str) -> AdapterError:
        self.broken = True
        return AdapterError(why)

    def _read_stdout(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip():
                self._lines.put(line)
        self._lines.put(None)

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.stderr.append(line.decode(errors="replace").rstrip())


def _environment() -> dict[str, str]:
    """A copy of the environment: the system would read the original while another thread changes it."""
    return {name: value for name in list(os.environ) if (value := os.environ.get(name)) is not None}
