"""`millstream read`: read a stream, and follow it."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.reading import Offset, show_stream
from millstream.cli.targets import DEFAULT_URL, Stream, Token, Url


def read(
    stream: Stream,
    offset: Offset = None,
    until: Annotated[str | None, typer.Option(help="End at this offset.", metavar="OFFSET")] = None,
    last: Annotated[
        int | None,
        typer.Option(min=0, help="Begin with the last N messages, or lines if not JSON.", metavar="N"),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more, or stop at the current end.")
    ] = True,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Read a stream, and follow it until it is closed.

    JSON messages are written one per line, other content as it is.
    """
    show_stream(stream, targets.server(url, token), offset=offset, until=until, last=last, follows=follow)
