"""What the commands about subscriptions share: ids, paths, and the server's routes."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure
from millstream.client.sync.subscriptions import Subscriptions


def completed(context: typer.Context, incomplete: str) -> list[str]:
    """Return ids of subscriptions for the shell; none if the server is unreachable or slow."""
    try:
        given = context.params
        there = targets.server(given.get("url"), given.get("token"), given.get("profile"))
        found = Subscriptions(there.url, headers=there.headers(there.url), timeout=1.0, retry=None).list()
        return [one.id for one in found if one.id.startswith(incomplete)][:100]
    except Exception:  # nothing may be printed into a prompt
        return []


Id = Annotated[str, typer.Argument(help="The subscription.", metavar="ID", autocompletion=completed)]
Paths = Annotated[
    list[str],
    typer.Argument(help="Paths of streams.", metavar="STREAM...", autocompletion=targets.completed),
]


def subscriptions_of(server: targets.Server) -> Subscriptions:
    """Return the subscriptions of a server."""
    return Subscriptions(server.url, headers=server.headers(server.url), retry=targets.QUICK)


def relative(path: str) -> str:
    """Return a path as subscriptions name it: without the slash before it."""
    found = path.lstrip("/")
    if not found or "://" in found:
        raise Failure(Exit.USAGE, f"{path!r} is not a path on the server", "/orders/1 is one")
    return found
