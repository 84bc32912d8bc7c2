"""`millstream completion`: what a shell needs to complete commands, options and stream names."""

import enum
from typing import Annotated, Final

import typer
from typer.completion import (  # type: ignore[attr-defined]  # they have no public names
    completion_init,
    get_completion_script,
)

VARIABLE: Final = "_MILLSTREAM_COMPLETE"
"""Set when a shell asks."""


class Shell(enum.StrEnum):
    """Shells that can."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print completions for a shell; for bash, put `eval "$(millstream completion bash)"` into ~/.bashrc."""
    typer.echo(get_completion_script(prog_name="millstream", complete_var=VARIABLE, shell=shell.value))


def prepare() -> None:
    """Make the program able to answer a shell."""
    completion_init()
