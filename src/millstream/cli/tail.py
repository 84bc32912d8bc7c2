"""`millstream tail`: follow a stream live."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.contents import Shape
from millstream.cli.reading import Format, Offset, Offsets, show_stream
from millstream.cli.targets import Profile, Stream, Token, Url


def tail(
    stream: Stream,
    last: Annotated[
        int | None,
        typer.Option(
            min=0, help="Begin with the last N messages, or lines if not JSON. [default: 10]", metavar="N"
        ),
    ] = None,
    offset: Offset = None,
    format: Format = Shape.LINES,
    offsets: Offsets = False,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Follow a stream live, beginning with its last messages. Broken connections are resumed."""
    count = 10 if last is None and offset is None else last
    show_stream(
        stream,
        targets.server(url, token, profile),
        offset=offset,
        until=None,
        last=count,
        follows=True,
        shape=format,
        offsets=offsets,
    )
