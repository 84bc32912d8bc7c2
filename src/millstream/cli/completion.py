"""`millstream completion`: print a shell's completion script for commands, options and stream names."""

import enum
from typing import Annotated, Final

import typer
from typer.completion import (  # type: ignore[attr-defined]  # typer has no public names for them
    completion_init,
    get_completion_script,
)

VARIABLE: Final = "_MILLSTREAM_COMPLETE"
"""Set when a shell requests completions."""


class Shell(enum.StrEnum):
    """Supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print completions for a shell; for bash, put `eval "$(millstream completion bash)"` into ~/.bashrc."""
    typer.echo(get_completion_script(prog_name="millstream", complete_var=VARIABLE, shell=shell.value))


def prepare() -> None:
    """Enable completion."""
    completion_init()
