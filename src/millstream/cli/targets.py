"""Where a command goes: the options that every verb of the client has, and what they mean."""

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
"""For the first question: a person who mistyped an address should not wait for a minute."""

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
    """A server and how to be let in."""

    url: str
    token: str | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """Give what goes along with every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def stream(self, name: str) -> DurableStream:
        """Take a handle on a stream, named by its URL or by its path on this server."""
        return DurableStream(locate(self.url, name), headers=self.headers, retry=QUICK)


def server(url: str, token: str | None) -> Server:
    """Check where a command should go."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failure(
            Exit.USAGE, f"--url {url!r} is not the address of a server", f"It looks like {DEFAULT_URL}"
        )
    if token is not None and not (token.isascii() and token.isprintable()):
        raise Failure(Exit.USAGE, "The token has characters that no token has", "Was it pasted whole?")
    return Server(url.rstrip("/"), token)


def locate(base: str, name: str) -> str:
    """Give a stream's URL. A path is taken as it is spelled; only a URL may be percent-encoded."""
    if name.startswith(("http://", "https://")):
        return name
    path = name.lstrip("/")
    if not path:
        raise Failure(
            Exit.USAGE, f"{name!r} names no stream", "A stream has a path, /chat/1 for example, or a URL"
        )
    try:
        return f"{base.rstrip('/')}/{quote(path)}"
    except UnicodeEncodeError:
        raise Failure(Exit.USAGE, "The stream's path is not UTF-8", "Give its URL, percent-encoded") from None


def shown(url: str) -> str:
    """Give a stream's path as a person reads it."""
    return unquote(urlsplit(url).path) or "/"


def completed(context: typer.Context, incomplete: str) -> list[str]:
    """Give stream names for the shell: a server that is not there or slow is no error, and gives none."""
    from millstream.client.sync import listing

    try:
        there = server(context.params.get("url") or DEFAULT_URL, context.params.get("token"))
        page = listing.fetch(
            there.url, prefix=f"/{incomplete.lstrip('/')}", limit=100, headers=there.headers, timeout_s=1.0
        )
    except Exception:  # nothing may disturb a prompt
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
    """Tell something beside the output."""
    typer.echo(text, err=True)
    sys.stderr.flush()
