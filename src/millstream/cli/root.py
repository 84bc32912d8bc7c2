"""The command without a subcommand: help and version."""

from typing import Annotated

import typer


def _tell_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version as version_of  # slow to load

        typer.echo(f"millstream {version_of('millstream')}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version.")
    ] = False,
) -> None:
    """Durable streams for Python and Spark."""
