"""`millstream fork`: create a stream that begins with another's content."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.create import ExpiresAt, Ttl, check_lifetime
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.targets import Profile, Stream, Token, Url


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
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Create a stream that begins with another's content. That ends at --offset, or at its current end."""
    check_lifetime(ttl, expires_at)
    server = targets.server(url, token, profile)
    source = server.stream(stream)
    made = source.fork(
        targets.locate(server.url, target), offset=offset, ttl_seconds=ttl, expires_at=expires_at
    )
    head = made.head()
    name, origin = targets.shown(made.url), targets.shown(source.url)
    StandardOutput(output_format).result(
        f"{name} branches off {origin} and ends at {head.offset}",
        {"stream": name, "forkedFrom": origin, "contentType": head.content_type, "offset": head.offset},
    )
