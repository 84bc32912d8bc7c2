"""`millstream tail`: follow a stream live."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.reading import Offset, show_stream
from millstream.cli.targets import DEFAULT_URL, Stream, Token, Url


def tail(
    stream: Stream,
    last: Annotated[
        int | None,
        typer.Option(
            min=0, help="Begin with the last N messages, or lines if not JSON. [default: 10]", metavar="N"
        ),
    ] = None,
    offset: Offset = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Follow a stream live, beginning with its last messages. Broken connections are resumed."""
    count = 10 if last is None and offset is None else last
    show_stream(stream, targets.server(url, token), offset=offset, until=None, last=count, follows=True)
