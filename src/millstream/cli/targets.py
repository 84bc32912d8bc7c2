"""The options that every client command has: the server, the token, the stream."""

import sys
from collections.abc import Mapping
from typing import Annotated, Final
from urllib.parse import quote, unquote, urlsplit

import msgspec
import typer

from millstream.cli.exits import Exit, Failure
from millstream.client.core.retry import Retry
from millstream.client.sync.streams import DurableStream

DEFAULT_URL: Final = "http://127.0.0.1:4437"

QUICK: Final = Retry(max_total_s=2.0)
"""For the first request: a mistyped address should fail quickly."""

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="MILLSTREAM_URL",
        help="The server, with the path below which its streams live.",
        metavar="URL",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="MILLSTREAM_TOKEN", help="Sent as Authorization: Bearer.", metavar="TOKEN"
    ),
]


class Server(msgspec.Struct, frozen=True):
    """A server's URL and token."""

    url: str
    token: str | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def stream(self, name: str) -> DurableStream:
        """Return a handle on a stream, named by its URL or by its path on this server."""
        return DurableStream(locate(self.url, name), headers=self.headers, retry=QUICK)


def server(url: str, token: str | None) -> Server:
    """Check the server's URL and the token."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failure(Exit.USAGE, f"--url {url!r} is not a server's URL", f"It looks like {DEFAULT_URL}")
    if token is not None and not (token.isascii() and token.isprintable()):
        raise Failure(Exit.USAGE, "The token contains invalid characters", "Was it pasted completely?")
    return Server(url.rstrip("/"), token)


def locate(base: str, name: str) -> str:
    """Return a stream's URL. A path is taken literally; only a URL may be percent-encoded."""
    if name.startswith(("http://", "https://")):
        return name
    path = name.lstrip("/")
    if not path:
        raise Failure(
            Exit.USAGE, f"{name!r} is not a stream name", "A stream has a path, /chat/1 for example, or a URL"
        )
    try:
        return f"{base.rstrip('/')}/{quote(path)}"
    except UnicodeEncodeError:
        raise Failure(Exit.USAGE, "The stream's path is not UTF-8", "Give its URL, percent-encoded") from None


def shown(url: str) -> str:
    """Return a stream's path, decoded for display."""
    return unquote(urlsplit(url).path) or "/"


def completed(context: typer.Context, incomplete: str) -> list[str]:
    """Return stream names for the shell; none if the server is unreachable or slow."""
    from millstream.client.sync import listing

    try:
        there = server(context.params.get("url") or DEFAULT_URL, context.params.get("token"))
        page = listing.fetch(
            there.url, prefix=f"/{incomplete.lstrip('/')}", limit=100, headers=there.headers, timeout_s=1.0
        )
    except Exception:  # nothing may be printed into a prompt
        return []
    slash = incomplete.startswith("/") or not incomplete
    return [stream.path if slash else stream.path.lstrip("/") for stream in page.streams]


Stream = Annotated[
    str,
    typer.Argument(
        help="A path on the server, /chat/1, or a URL.", metavar="STREAM", autocompletion=completed
    ),
]


def note(text: str) -> None:
    """Write a note to standard error."""
    typer.echo(text, err=True)
    sys.stderr.flush()
