"""`millstream trim`: drop the beginning of a stream."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.targets import Profile, Stream, Token, Url


def trim(
    stream: Stream,
    before: Annotated[
        str, typer.Option(help="Drop what is before this offset; now drops everything.", metavar="OFFSET")
    ],
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Drop the beginning of a stream, up to an offset. Only whole appends go; forks keep what they share."""
    target = targets.server(url, token, profile).stream(stream)
    result = target.trim(before=before)
    name = targets.shown(target.url)
    StandardOutput(output_format).result(
        f"{name} begins at {result.earliest_offset} and ends at {result.next_offset}",
        {"stream": name, "earliestOffset": result.earliest_offset, "offset": result.next_offset},
    )
