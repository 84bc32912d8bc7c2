"""`millstream token`: make a token for a server with access control, ours or AnyCable's."""

import time
from typing import Annotated, NoReturn

import typer

from millstream.cli.exits import Exit, Failure
from millstream.cli.output import Format, StandardOutput


def token(
    scope: Annotated[
        list[str] | None,
        typer.Argument(help="What it allows: read, write, admin, or with a glob: read:/chat/**."),
    ] = None,
    signed: Annotated[
        str | None, typer.Option(help="Instead: sign this stream's name for AnyCable's clients.")
    ] = None,
    jid: Annotated[
        str | None,
        typer.Option(help="Instead: a JWT for an AnyCable client with these identifiers, in JSON."),
    ] = None,
    secret: Annotated[
        str, typer.Option(envvar="MILLSTREAM_AUTH_SECRET", help="The server's auth secret.", show_envvar=True)
    ] = "",
    anycable_secret: Annotated[
        str,
        typer.Option(
            envvar="MILLSTREAM_ANYCABLE_SECRET",
            help="The server's AnyCable secret, for --signed and --jid.",
            show_envvar=True,
        ),
    ] = "",
    expires_s: Annotated[
        int, typer.Option(min=1, help="Seconds until it expires; a signed name does not expire.")
    ] = 3600,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="text is the token alone, also in a pipe.")
    ] = Format.TEXT,
) -> None:
    """Make a token for a server with access control.

    Scopes make one to send as `Authorization: Bearer`; --signed and --jid make those of AnyCable's clients.
    """
    from millstream.server.anycable import credentials  # slow to load

    if [bool(scope), signed is not None, jid is not None].count(True) != 1:
        _fail("Give scopes, --signed or --jid, one of them", "`millstream token read` allows all reads")
    if scope:
        _write(_bearer(scope, secret, expires_s), output)
        return
    if not anycable_secret:
        _fail(
            "The secret is missing or empty",
            "Give the server's --anycable-secret, or MILLSTREAM_ANYCABLE_SECRET",
        )
    if signed is not None:
        _write(credentials.sign_name(anycable_secret.encode(), signed), output)
    elif jid is not None:
        if not credentials.is_identifiers(jid):
            _fail("--jid takes the client's identifiers as JSON", "'{\"user\":1}' is an example")
        _write(credentials.make_jwt(anycable_secret.encode(), jid, expires_s), output)


def _bearer(scope: list[str], secret: str, expires_s: int) -> str:
    import jwt

    from millstream.server.access.grants import parse_scopes
    from millstream.server.access.tokens import secret_key
    from millstream.server.settings import SettingsError

    if len(parse_scopes(scope)) != len(scope):
        _fail("A scope is read, write or admin, alone or with a glob after a colon", "read:/chat/** is one")
    if not secret:
        _fail("The secret is missing or empty", "Give the server's --secret, or MILLSTREAM_AUTH_SECRET")
    try:
        key = secret_key(secret)
    except SettingsError as error:
        _fail(str(error))
    claims = {"scope": " ".join(scope), "exp": int(time.time()) + expires_s}
    return jwt.encode(claims, key.verifier, algorithm=key.algorithms[0])


def _write(made: str, output: Format) -> None:
    StandardOutput(output).result(made, {"token": made})


def _fail(reason: str, hint: str = "") -> NoReturn:
    raise Failure(Exit.USAGE, reason, hint) from None
