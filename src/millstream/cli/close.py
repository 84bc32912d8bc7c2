"""`millstream close`: close a stream."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.targets import Profile, Stream, Token, Url
from millstream.client.core import bodies


def close(
    stream: Stream,
    message: Annotated[
        str | None,
        typer.Option("--message", "-m", help="A last message; JSON for a JSON stream.", metavar="TEXT"),
    ] = None,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Close a stream: readers see its end, appends are refused."""
    target = targets.server(url, token, profile).stream(stream)
    last = None
    if message is not None:
        target.content_type = target.head().content_type
        last = _checked(message.encode(errors="surrogateescape"), as_json=bodies.is_json(target.content_type))
    result = target.close(last)
    name = targets.shown(target.url)
    StandardOutput(output_format).result(
        f"{name} is closed and ends at {result.final_offset}",
        {"stream": name, "closed": True, "offset": result.final_offset},
    )


def _checked(message: bytes, *, as_json: bool) -> bytes:
    try:
        return bodies.message(message, as_json=as_json)
    except ValueError:
        raise Failure(
            Exit.BAD_INPUT, "The last message is not JSON", "A string of JSON has quotes: '\"bye\"'"
        ) from None
