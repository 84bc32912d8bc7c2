"""The command as a user runs it: piped, or on a terminal."""

import contextlib
import os
import pty
import select
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import msgspec

import forking
from forking import COMMAND

TIMEOUT_S = 60.0


def environment(**variables: str) -> dict[str, str]:
    """What the command sees: nothing of ours but what a test gives."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("MILLSTREAM_", "NO_COLOR"))
    }
    return kept | {"TERM": "xterm-256color", "COLUMNS": "120"} | variables


class Ended(msgspec.Struct, frozen=True):
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def records(self) -> list[dict[str, object]]:
        return [msgspec.json.decode(line) for line in self.out.splitlines()]

    @property
    def text(self) -> str:
        return self.out.decode()


class Cli:
    """Runs commands against one server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(
        self, *arguments: str, stdin: bytes = b"", cwd: Path | None = None, **variables: str
    ) -> Ended:
        """Run a command to its end, piped."""
        done = forking.run(
            [*COMMAND, *arguments],
            environment=environment(**{"MILLSTREAM_URL": self.url, **variables}),
            stdin=stdin,
            cwd=cwd,
            timeout_s=TIMEOUT_S,
        )
        return Ended(done.returncode, done.stdout, done.stderr.decode())

    @contextlib.contextmanager
    def started(self, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a command in the background, piped."""
        with subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(MILLSTREAM_URL=self.url),
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def terminal(self, *arguments: str, typed: bytes = b"", **variables: str) -> Ended:
        """Run a command on a terminal of its own, to its end."""
        return on_terminal([*COMMAND, *arguments], typed, environment(MILLSTREAM_URL=self.url, **variables))


def on_terminal(
    command: Sequence[str], typed: bytes, variables: dict[str, str], cwd: Path | None = None
) -> Ended:
    """Run a command with a terminal for its input, output and errors."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = forking.start(
        command,
        environment=variables,
        descriptors=(theirs, theirs, theirs),
        cwd=cwd,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed)
    out = b""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # what Linux gives once the other end is closed
                break
            if not piece:
                break
            out += piece
    else:
        process.kill()
    code = process.wait(TIMEOUT_S)
    os.close(ours)
    return Ended(code, out.replace(b"\r\n", b"\n"), "")
