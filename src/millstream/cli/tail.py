"""`millstream tail`: follow a stream live, or several together."""

from typing import Annotated

import typer

from millstream.cli import tailing_many, targets
from millstream.cli.contents import Shape
from millstream.cli.exits import Exit, Failure
from millstream.cli.reading import Format, Offset, Offsets, Since, Times, show_stream
from millstream.cli.targets import Profile, Token, Url, completed

Streams = Annotated[
    list[str] | None,
    typer.Argument(
        help="A path on the server, /chat/1, or a URL; several paths are followed together.",
        metavar="STREAM...",
        autocompletion=completed,
        show_default=False,
    ),
]


def tail(
    streams: Streams = None,
    glob: Annotated[
        list[str] | None,
        typer.Option(
            help="Follow all streams that match, also those that are created later; repeatable.",
            metavar="GLOB",
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            min=0, help="Begin with the last N messages, or lines if not JSON. [default: 10]", metavar="N"
        ),
    ] = None,
    offset: Offset = None,
    since: Since = None,
    format: Format = Shape.LINES,
    offsets: Offsets = False,
    times: Times = False,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Follow a stream live, beginning with its last messages. Broken connections are resumed.

    Several streams, or those that --glob matches, are followed from now on, on one connection. Each line then
    begins with the path of its stream and a tab.
    """
    names, server = streams or [], targets.server(url, token, profile)
    if not names and not glob:
        raise Failure(Exit.USAGE, "Name a stream, or give --glob", "`millstream list` shows what there is")
    if len(names) > 1 or glob:
        if last is not None or since is not None or offsets or times:
            raise Failure(
                Exit.USAGE,
                "--last, --since, --offsets and --times are for one stream",
                "--format json has offsets",
            )
        tailing_many.follow(names, glob or [], server, offset=offset, shape=format)
        return
    count = 10 if last is None and offset is None and since is None else last
    show_stream(
        names[0],
        server,
        offset=offset,
        until=None,
        last=count,
        follows=True,
        shape=format,
        offsets=offsets,
        since=since,
        times=times,
    )
