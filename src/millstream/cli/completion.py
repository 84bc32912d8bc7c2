"""`millstream completion`: what a shell needs to complete commands, options and stream names."""

import enum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # it has no public name


class Shell(enum.StrEnum):
    """Shells that can."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print completions for a shell; for bash, put `eval "$(millstream completion bash)"` into ~/.bashrc."""
    typer.echo(
        get_completion_script(prog_name="millstream", complete_var="_MILLSTREAM_COMPLETE", shell=shell.value)
    )
