"""Attributes of streams on the command line: `NAME=VALUE`, as often as needed."""

from typing import Annotated

import typer

from millstream.cli.exits import Exit, Failure

Noted = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute", "-a", help="Note this with the stream; may be repeated.", metavar="NAME=VALUE"
    ),
]
Wanted = Annotated[
    list[str] | None,
    typer.Option("--attribute", "-a", help="Only streams with this; may be repeated.", metavar="NAME=VALUE"),
]


def parse(given: list[str] | None) -> dict[str, str]:
    """Read names and their values, which are text."""
    found: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Failure(Exit.USAGE, f"{text!r} is not an attribute", "One is NAME=VALUE: team=checkout")
        found[name] = value
    return found
