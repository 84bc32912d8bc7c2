"""Completions, asked for as the shells do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.commands import Cli, environment
from running import free_port


def completed(cli: Cli, line: str) -> list[str]:
    words = line.split(" ")
    return cli(
        _MILLSTREAM_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)
    ).text.splitlines()


def test_commands_and_options_are_completed(cli: Cli) -> None:
    assert completed(cli, "millstream re") == ["read", "restore"]
    assert completed(cli, "millstream read --un") == ["--until"]


def test_stream_names_come_from_the_server(cli: Cli, events: str) -> None:
    assert completed(cli, f"millstream read {events[:-4]}") == [events]
    assert completed(cli, f"millstream tail {events[1:-4]}") == [events[1:]]
    assert completed(cli, f"millstream head --url {cli.url} {events[:-4]}") == [events]


def test_a_server_that_is_not_there_completes_nothing(name: str) -> None:
    absent = Cli(f"http://127.0.0.1:{free_port()}")
    ended = absent(_MILLSTREAM_COMPLETE="complete_bash", COMP_WORDS="millstream read /", COMP_CWORD="2")
    assert (ended.code, ended.out.strip(), ended.err) == (0, b"", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(cli: Cli, shell: str, tmp_path: Path) -> None:
    ended = cli("completion", shell)
    assert ended.code == 0
    assert "_MILLSTREAM_COMPLETE" in ended.text
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(ended.text)
    checked = subprocess.run(
        [program, "-n", tmp_path / "script"], capture_output=True, timeout=20, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, b"")


def test_bash_uses_its_script(cli: Cli, events: str, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    script = cli("completion", "bash").text
    asks = f"""{script}
COMP_WORDS=(millstream read {events[:-4]}); COMP_CWORD=2
_millstream_completion millstream; echo "${{COMPREPLY[*]}}"
"""
    command = tmp_path / "millstream"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m millstream "$@"\n')
    command.chmod(0o755)
    variables = environment(MILLSTREAM_URL=cli.url) | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    asked = subprocess.run(
        [bash, "--norc", "-c", asks], env=variables, capture_output=True, text=True, timeout=30, check=False
    )
    assert (asked.stdout.strip(), asked.stderr) == (events, "")
