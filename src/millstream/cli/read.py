"""`millstream read`: a stream's content, and what comes after it."""

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
        typer.Option(min=0, help="Begin with the last N messages; lines, if not JSON.", metavar="N"),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more, or end at the present end.")
    ] = True,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Read a stream from its beginning, and follow it until it is closed.

    Messages of a JSON stream come one on a line, other content as it is.
    """
    show_stream(stream, targets.server(url, token), offset=offset, until=until, last=last, follows=follow)
