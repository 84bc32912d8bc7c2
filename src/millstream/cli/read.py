"""`millstream read`: read a stream, and follow it."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.contents import Shape
from millstream.cli.reading import Format, Offset, Offsets, Since, Times, show_stream
from millstream.cli.targets import Profile, Stream, Token, Url


def read(
    stream: Stream,
    offset: Offset = None,
    since: Since = None,
    until: Annotated[
        str | None,
        typer.Option(help="End at this offset, or before what arrived at this time.", metavar="OFFSET|TIME"),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(min=0, help="Begin with the last N messages, or lines if not JSON.", metavar="N"),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more, or stop at the current end.")
    ] = True,
    format: Format = Shape.LINES,
    offsets: Offsets = False,
    times: Times = False,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Read a stream, and follow it until it is closed.

    JSON messages are written one per line, other content as it is.
    """
    show_stream(
        stream,
        targets.server(url, token, profile),
        offset=offset,
        until=until,
        last=last,
        follows=follow,
        shape=format,
        offsets=offsets,
        since=since,
        times=times,
    )
