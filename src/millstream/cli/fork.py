"""`millstream fork`: create a stream that begins with another's content."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.create import ExpiresAt, Ttl, check_lifetime
from millstream.cli.output import StandardOutput
from millstream.cli.targets import DEFAULT_URL, Stream, Token, Url


def fork(
    stream: Stream,
    target: Annotated[
        str, typer.Argument(help="The new stream: a path on the server, or a URL.", metavar="NEW")
    ],
    offset: Annotated[
        str | None, typer.Option(help="Where it branches off. [default: the current end]", metavar="OFFSET")
    ] = None,
    ttl: Ttl = None,
    expires_at: ExpiresAt = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Create a stream that begins with another's content. That ends at --offset, or at its current end."""
    check_lifetime(ttl, expires_at)
    server = targets.server(url, token)
    source = server.stream(stream)
    made = source.fork(
        targets.locate(server.url, target), offset=offset, ttl_seconds=ttl, expires_at=expires_at
    )
    head = made.head()
    name, origin = targets.shown(made.url), targets.shown(source.url)
    StandardOutput().result(
        f"{name} branches off {origin} and ends at {head.offset}",
        {"stream": name, "forkedFrom": origin, "contentType": head.content_type, "offset": head.offset},
    )
