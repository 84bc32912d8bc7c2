"""`millstream delete`: delete streams."""

import sys
from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.targets import Profile, Token, Url, completed
from millstream.cli.terminals import inert_line


def delete(
    streams: Annotated[
        list[str],
        typer.Argument(help="Paths on the server, or URLs.", metavar="STREAM", autocompletion=completed),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Delete streams; asks for confirmation on a terminal."""
    server = targets.server(url, token, profile)
    found = [server.stream(name) for name in streams]
    output = StandardOutput(output_format)
    for stream in found:
        name = targets.shown(stream.url)
        if not yes and sys.stdin.isatty():
            stream.head()  # do not ask about a stream that does not exist
            typer.echo(f"Delete {inert_line(name)} for good? [y/N] ", nl=False, err=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise Failure(Exit.FAILED, f"{name} was kept")
        stream.delete()
        output.result(f"{name} is deleted", {"stream": name, "deleted": True})
