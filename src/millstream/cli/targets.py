"""The options that every client command has: the server, the token, the stream."""

import os
import sys
from collections.abc import Mapping
from typing import Annotated, Final
from urllib.parse import quote, unquote, urlsplit

import msgspec
import typer

from millstream.cli.exits import Exit, Failure
from millstream.cli.profiles import file as profiles
from millstream.client.core.retry import Retry
from millstream.client.sync.streams import DurableStream

DEFAULT_URL: Final = "http://127.0.0.1:4437"

QUICK: Final = Retry(max_total_s=2.0)
"""For the first request: a mistyped address should fail quickly."""

# The variables are read in `server`: what was given decides which of them count.
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="The server, with the path below which its streams live. "
        f"[env var: MILLSTREAM_URL; default: {DEFAULT_URL}]",
        metavar="URL",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", help="Sent as Authorization: Bearer. [env var: MILLSTREAM_TOKEN]", metavar="TOKEN"
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="A server and token that `millstream profile add` has saved. [env var: MILLSTREAM_PROFILE]",
        metavar="NAME",
    ),
]


class Server(msgspec.Struct, frozen=True):
    """A server's URL and token."""

    url: str
    token: str | None = None
    is_from_profile: bool = False

    def headers(self, url: str) -> Mapping[str, str]:
        """Return the headers of a request. A profile's token is for its own server and no other."""
        if not self.token or (self.is_from_profile and _origin(url) != _origin(self.url)):
            return {}
        return {"Authorization": f"Bearer {self.token}"}

    def stream(self, name: str, params: Mapping[str, str] | None = None) -> DurableStream:
        """Return a handle on a stream, named by its URL or by its path on this server."""
        url = locate(self.url, name)
        return DurableStream(url, headers=self.headers(url), params=params, retry=QUICK)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def server(url: str | None, token: str | None, profile: str | None) -> Server:
    """Find the server.

    It is named by --url, --profile, MILLSTREAM_URL, MILLSTREAM_PROFILE or the profile in use, in this order.
    A token that a variable holds belongs to the URL of an option, of a variable or the default. A profile
    has its own.
    """
    if url is not None and profile is not None:
        raise Failure(Exit.USAGE, "--url and --profile exclude each other", "Both name a server")
    named = os.environ.get("MILLSTREAM_URL") or None
    if url is None and (profile is not None or named is None):
        found = profiles.find(profile or os.environ.get("MILLSTREAM_PROFILE") or None)
        if found is not None:
            own = check(found.url, token if token is not None else found.read_token(), "The profile's URL")
            return Server(own.url, own.token, is_from_profile=token is None)
    if token is None:
        token = os.environ.get("MILLSTREAM_TOKEN") or None
    if url is not None:
        return check(url, token, "--url")
    return check(named or DEFAULT_URL, token, "MILLSTREAM_URL")


def check(url: str, token: str | None, where: str) -> Server:
    """Check a server's URL and token."""
    if not _is_url(url):
        raise Failure(Exit.USAGE, f"{where} {url!r} is not a server's URL", f"It looks like {DEFAULT_URL}")
    if token is not None and not (token.isascii() and token.isprintable()):
        raise Failure(Exit.USAGE, "The token contains invalid characters", "Was it pasted completely?")
    return Server(url.rstrip("/"), token)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half of an IPv6 address
        return False


def locate(base: str, name: str) -> str:
    """Return a stream's URL. A path is taken literally; only a URL may be percent-encoded."""
    refusal = Failure(
        Exit.USAGE, f"{name!r} is not a stream name", "A stream has a path, /chat/1 for example, or a URL"
    )
    if name.startswith(("http://", "https://")):
        if not _is_url(name) or urlsplit(name).path in ("", "/"):
            raise refusal
        return name
    path = name.lstrip("/")
    if not path:
        raise refusal
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
        given = context.params
        there = server(given.get("url"), given.get("token"), given.get("profile"))
        page = listing.fetch(
            there.url,
            prefix=f"/{incomplete.lstrip('/')}",
            limit=100,
            headers=there.headers(there.url),
            timeout_s=1.0,
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
