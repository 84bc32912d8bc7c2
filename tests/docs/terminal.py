"""The terminal of a page: its commands run one after the other, as a reader would type them.

Every command gets what `export` left behind, the page's folder and the page's server. A few commands are
not run as they stand:

    millstream serve        runs in the background and is the page's server from then on
    make serve              is `millstream serve`, if the Makefile says so
    make TARGET             is only tried (`make --dry-run`): tests do not run all tests
    pip install             is only looked at: the extra must be there
    millstream check        runs while the server is stopped, as the page says
    millstream conformance  runs one group of checks; tests/conformance runs them all
    what follows a stream   is interrupted once it has shown what the page shows
"""

import importlib.metadata
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

from cli.commands import environment
from docs.blocks import ROOT, Block, shown
from running import Server, free_port

TIMEOUT_S = 60.0
PORT = "4437"  # what pages say
PROGRAMS = ("curl", "jq", "openssl")
_FOLLOWS = re.compile(r"live=sse|millstream (tail|read(?!.*--(no-follow|until)))")
_ANYTHING = re.compile(r"[\s\S]+")
_KEEPING = '[ ! -f "$KEPT" ] || . "$KEPT"; {command}\ncode=$?; export -p >"$KEPT"; exit $code'


def steps(text: str) -> list[tuple[str, str]]:
    """Cut a block into commands and what is shown below each; without prompts each line is a command."""
    joined = re.sub(r"\\\n\s*", "", text)
    if not joined.startswith("$ "):
        return [(line, "") for line in joined.splitlines()]
    parts = (step.partition("\n") for step in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:])
    return [(command, output) for command, _, output in parts]


class Terminal:
    """Runs the commands of one page."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.port = str(free_port())
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._server: Server | None = None
        self._served: list[str] = []
        programs = folder / "bin"
        programs.mkdir()
        (programs / "millstream").write_text(f'#!/bin/sh\nexec {sys.executable} -m millstream "$@"\n')
        (programs / "millstream").chmod(0o755)
        for program in ("python", "pytest"):
            (programs / program).symlink_to(Path(sys.executable).with_name(program))
        self._variables = environment(
            MILLSTREAM_URL=self.url,
            MILLSTREAM_PORT=self.port,
            MILLSTREAM_LONG_POLL_TIMEOUT_MS="500",
            NO_COLOR="1",
            COLUMNS="400",
            KEPT=str(folder / "kept-variables"),
            XDG_CONFIG_HOME=str(folder / "settings"),
            **variables,
        )
        self._variables["PATH"] = f"{programs}:{self._variables['PATH']}"

    def here(self, text: str) -> str:
        """Put this page's port where pages say 4437, and loopback where they say everywhere."""
        return text.replace(PORT, self.port).replace("0.0.0.0", "127.0.0.1")

    def run(self, block: Block) -> None:
        """Run the commands of a block; fail where one prints something else than the page shows."""
        for command, output in steps(block.text):
            missing = [
                one for one in PROGRAMS if re.search(rf"\b{one}\b", command) and shutil.which(one) is None
            ]
            if missing:
                pytest.skip(f"{block.page} uses {missing[0]}, which is not installed")
            self._run(self.here(command), self.here(output), block.place)

    def _run(self, command: str, output: str, place: str) -> None:
        words = shlex.split(command, comments=True)
        code = 0
        if words[:2] in (["millstream", "serve"], ["make", "serve"]):
            printed = self.serve(words)
        elif words[0] == "make":
            code, printed = self._type(f"make --dry-run --directory={ROOT} {shlex.join(words[1:])}", None)
        elif words[:2] == ["pip", "install"]:
            printed = _look_at_extras(words[2:], place)
        elif words[:2] == ["millstream", "check"]:
            self.stop()
            code, printed = self._type(command, None)
            self.serve(self._served)
        elif words[:2] == ["millstream", "conformance"] and "--only" not in words:
            which = f"conformance {words[2]}"
            code, printed = self._type(command.replace(which, f"{which} --only closure"), None)
        else:
            until = shown(output) if output.strip() else _ANYTHING
            code, printed = self._type(command, until if _FOLLOWS.search(command) else None)
        only_tried = words[0] == "make" and words[1] != "serve"
        if output.strip() and not only_tried and not shown(output).fullmatch(printed):
            pytest.fail(f"{place}\n$ {command}\nprinted\n{printed}\nand not\n{output}", pytrace=False)
        if code != 0 and not re.search(r"^millstream( \w+)?: ", output, re.MULTILINE):
            pytest.fail(f"{place}\n$ {command}\nended with {code} and printed\n{printed}", pytrace=False)

    def serve(self, words: list[str]) -> str:
        """Start the page's server; give what it printed."""
        self.stop()
        if words[0] == "make":
            tried = ["make", "--dry-run", f"--directory={ROOT}", "serve"]
            recipe = subprocess.run(tried, capture_output=True, text=True, check=True).stdout
            assert re.search(r"bin/millstream serve$", recipe, re.MULTILINE), recipe
            words = ["millstream", "serve"]
        self._served = words
        kept = self._folder / "kept-variables"
        exports = f". {kept}; " if kept.exists() else ""
        command = ["bash", "-c", f"cd {self._folder}; {exports}exec {shlex.join(words)}"]
        self._server = Server(command, self._variables)
        self._server.wait_until(lambda: "stop with" in self._server_output())
        return self._server_output()

    def _server_output(self) -> str:
        return self._server.output() if self._server else ""

    def stop(self) -> None:
        """End the page's server; it has to leave well."""
        server, self._server = self._server, None
        if server is not None and (server.stop() != 0 or "Traceback" in server.output()):
            raise server.failed(f"left with {server.exit_code}")

    def _type(self, command: str, until: "re.Pattern[str] | None") -> tuple[int, str]:
        """Run a command on a terminal to its end, or `until` its output is this."""
        ours, theirs = pty.openpty()
        ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 40, 400, 0, 0))
        process = subprocess.Popen(
            ["bash", "-c", _KEEPING.format(command=command)],
            stdin=theirs, stdout=theirs, stderr=theirs,
            env=self._variables, cwd=self._folder, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        printed = b""
        seen: bytes | None = None
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    piece = os.read(ours, 65536)
                except OSError:  # what Linux gives once the other end is closed
                    break
                if not piece:
                    break
                printed += piece
            if until and seen is None and printed and until.fullmatch(_text(printed)):
                os.killpg(process.pid, signal.SIGINT)
                seen = printed
        else:
            os.killpg(process.pid, signal.SIGKILL)
        os.close(ours)
        code = process.wait()
        return (code, _text(printed)) if seen is None else (0, _text(seen))


def _text(printed: bytes) -> str:
    return re.sub(r"\r+\n", "\n", printed.decode())


def _look_at_extras(arguments: list[str], place: str) -> str:
    wanted = {extra for one in arguments for extra in re.findall(r"\w+", one.partition("[")[2])}
    there = set(importlib.metadata.metadata("millstream").get_all("Provides-Extra") or ())
    assert arguments[-1].startswith("millstream"), place
    assert wanted <= there, f"{place}: there is no extra {wanted - there}"
    return ""
