"""The walk through the command line does what its page shows, on a terminal."""

import re
import sys
from pathlib import Path

import pytest

from cli.commands import environment, on_terminal
from running import millstream

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "command-line.md"


def steps() -> list[tuple[str, str]]:
    """Give each command of the page with what it prints; `...` stands for anything on its line."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = step.partition("\n")
            found.append((command, output))
    return found


def test_every_command_of_the_walk_prints_what_the_page_says(tmp_path: Path) -> None:
    walk = steps()
    assert len(walk) > 10
    (tmp_path / "millstream").write_text(f'#!/bin/sh\nexec {sys.executable} -m millstream "$@"\n')
    (tmp_path / "millstream").chmod(0o755)
    with millstream() as server:
        variables = environment(MILLSTREAM_URL=server.url, NO_COLOR="1", COLUMNS="400")
        variables["PATH"] = f"{tmp_path}:{variables['PATH']}"
        for command, output in walk:
            ended = on_terminal(["bash", "-c", command], b"", variables, tmp_path)
            pattern = re.escape(output).replace(re.escape("..."), ".*")
            if not re.fullmatch(pattern, ended.text):
                pytest.fail(f"$ {command}\nprinted\n{ended.text}\nand not\n{output}")
