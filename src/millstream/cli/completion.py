"""`millstream completion`: print a shell's completion script for commands, options and stream names."""

import enum
from typing import Annotated

import typer
from typer.completion import (  # type: ignore[attr-defined]  # typer has no public names for them
    completion_init,
    get_completion_script,
)

from millstream.cli.main import COMPLETES


class Shell(enum.StrEnum):
    """Supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print a shell's completions. For bash, put `eval "$(millstream completion bash)"` into ~/.bashrc."""
    typer.echo(get_completion_script(prog_name="millstream", complete_var=COMPLETES, shell=shell.value))


def prepare() -> None:
    """Enable completion."""
    completion_init()
