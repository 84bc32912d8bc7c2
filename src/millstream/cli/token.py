"""`millstream token`: make a token for a server that asks for one."""

import sys
import time
from typing import Annotated, NoReturn

import typer


def token(
    scope: Annotated[
        list[str], typer.Argument(help="What it allows: read, write, admin, or with a glob: read:/chat/**.")
    ],
    secret: Annotated[
        str, typer.Option(envvar="MILLSTREAM_AUTH_SECRET", help="The server's auth secret.", show_envvar=True)
    ],
    expires_s: Annotated[int, typer.Option(min=1, help="For how many seconds it is valid.")] = 3600,
) -> None:
    """Make a token, to be sent as `Authorization: Bearer`."""
    import jwt  # an extra, and slow to load

    from millstream.server.grants import parse_scopes
    from millstream.server.settings import SettingsError
    from millstream.server.tokens import secret_key

    understood = parse_scopes(scope)
    if len(understood) != len(scope):
        _fail("a scope is read, write or admin, alone or with a glob after a colon, such as read:/chat/**.")
    try:
        key = secret_key(secret)
    except SettingsError as error:
        _fail(str(error))
    claims = {"scope": " ".join(scope), "exp": int(time.time()) + expires_s}
    typer.echo(jwt.encode(claims, key.verifier, algorithm=key.algorithms[0]))


def _fail(reason: str) -> NoReturn:
    typer.echo(f"millstream token: {reason}", err=True)
    sys.exit(2)
