"""`millstream create`: create a stream."""

from http import HTTPStatus
from typing import Annotated

import typer

from millstream.cli import attributes, targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.targets import QUICK, Profile, Stream, Token, Url
from millstream.client.core.transport import Answer, CancelScope, Request
from millstream.client.http.sync_sockets import HttpClient
from millstream.client.sync.streams import DurableStream
from millstream.protocol.content import DEFAULT_TYPE

Ttl = Annotated[
    int | None,
    typer.Option(min=0, help="Seconds without reads and appends after which it expires.", metavar="SECONDS"),
]
ExpiresAt = Annotated[
    str | None, typer.Option(help="When it expires: 2030-01-01T00:00:00Z for example.", metavar="TIME")
]
RetainBytes = Annotated[
    int | None,
    typer.Option(
        min=1, help="Keep at least this many of the newest bytes; older ones may be trimmed.", metavar="BYTES"
    ),
]
RetainSeconds = Annotated[
    int | None,
    typer.Option(min=1, help="Keep content for at least this long.", metavar="SECONDS"),
]


def create(
    stream: Stream,
    json: Annotated[
        bool, typer.Option("--json", help="The same as --content-type application/json.")
    ] = False,
    content_type: Annotated[
        str | None,
        typer.Option(help=f"The content type. [default: {DEFAULT_TYPE.decode()}]", metavar="TYPE"),
    ] = None,
    ttl: Ttl = None,
    expires_at: ExpiresAt = None,
    retain_bytes: RetainBytes = None,
    retain_seconds: RetainSeconds = None,
    attribute: attributes.Noted = None,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Create a stream, unless it is there already. One with another configuration is a conflict."""
    if json and content_type is not None:
        raise Failure(Exit.USAGE, "--json and --content-type exclude each other", "Give one of them")
    check_lifetime(ttl, expires_at)
    if content_type is not None and not (content_type.isascii() and content_type.isprintable()):
        raise Failure(Exit.USAGE, f"{content_type!r} is not a content type", "text/plain is one")
    server = targets.server(url, token, profile)
    place = targets.locate(server.url, stream)
    sender = _Sender()
    made = DurableStream.create(
        place,
        content_type="application/json" if json else content_type or DEFAULT_TYPE.decode(),
        ttl_seconds=ttl,
        expires_at=expires_at,
        retain_bytes=retain_bytes,
        retain_seconds=retain_seconds,
        attributes=attributes.parse(attribute),
        headers=server.headers(place),
        retry=QUICK,
        client=sender,
    )
    is_new = sender.status == HTTPStatus.CREATED
    head = made.head()
    name = targets.shown(made.url)
    word = "is created" if is_new else "was there already"
    StandardOutput(output_format).result(
        f"{name} {word}: {head.content_type}, ends at {head.offset}",
        {
            "stream": name,
            "created": is_new,
            "contentType": head.content_type,
            "offset": head.offset,
            "url": made.url,
        },
    )


class _Sender(HttpClient):
    """Notes the status of the first answer: it tells a new stream from one that was there."""

    status: int | None = None

    def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request, and note the status of its answer."""
        answer = super().send(request, scope)
        if self.status is None:
            self.status = answer.status
        return answer


def check_lifetime(ttl: int | str | None, expires_at: str | None) -> None:
    """Refuse two expiry options."""
    if ttl is not None and expires_at is not None:
        raise Failure(Exit.USAGE, "--ttl and --expires-at exclude each other", "Give one of them")
