"""The commands that the documentation shows have the options they show; test_commands runs such commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from millstream.cli.verbs import PIPELINES

DOCS = Path(__file__).parents[3] / "docs"


def commands() -> Iterator[list[str]]:
    for page in ("pipelines.md", "commands.md"):
        joined = re.sub(r"\\\n\s*", "", (DOCS / page).read_text())
        for line in re.findall(r"^\$ millstream pipeline (.*)$", joined, re.MULTILINE):
            yield shlex.split(line)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_a_documented_command_can_be_given(words: list[str]) -> None:
    app = typer.Typer()
    app.command()(PIPELINES[words[0]].load())
    context = typer.main.get_command(app).make_context(words[0], words[1:])
    assert context.params["url"] is None, "they say nothing about the server"


def test_every_pipeline_is_shown() -> None:
    assert {words[0] for words in commands()} == set(PIPELINES)
