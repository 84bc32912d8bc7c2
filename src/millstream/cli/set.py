"""`millstream set`: change how long a stream lives, what it keeps, and its attributes."""

from typing import Annotated

import typer
from msgspec import UNSET, UnsetType

from millstream.cli import attributes, targets
from millstream.cli.create import check_lifetime
from millstream.cli.exits import Exit, Failure
from millstream.cli.head import show
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.targets import Profile, Stream, Token, Url

NONE = "none"


def set_stream(
    stream: Stream,
    ttl: Annotated[
        str | None,
        typer.Option(help="Seconds without reads and appends until it expires, or none.", metavar="SECONDS"),
    ] = None,
    expires_at: Annotated[str | None, typer.Option(help="When it expires, or none.", metavar="TIME")] = None,
    retain_bytes: Annotated[
        str | None,
        typer.Option(help="Keep at least this many of the newest bytes; none keeps all.", metavar="BYTES"),
    ] = None,
    retain_seconds: Annotated[
        str | None,
        typer.Option(help="Keep content for at least this long; none keeps all.", metavar="SECONDS"),
    ] = None,
    attribute: attributes.Noted = None,
    remove_attribute: Annotated[
        list[str] | None, typer.Option(help="Remove what was noted; may be repeated.", metavar="NAME")
    ] = None,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Change how long a stream lives, what it keeps, its attributes. What is not named stays as it is."""
    noted: dict[str, str | None] = dict.fromkeys(remove_attribute or [])
    noted |= attributes.parse(attribute)
    if ttl != NONE and expires_at != NONE:
        check_lifetime(ttl, expires_at)
    target = targets.server(url, token, profile).stream(stream)
    target.configure(
        ttl_seconds=_number("--ttl", ttl, 0),
        expires_at=UNSET if expires_at is None else None if expires_at == NONE else expires_at,
        retain_bytes=_number("--retain-bytes", retain_bytes, 1),
        retain_seconds=_number("--retain-seconds", retain_seconds, 1),
        attributes=noted or None,
    )
    show(StandardOutput(output_format), target)


def _number(option: str, text: str | None, least: int) -> int | UnsetType | None:
    if text is None:
        return UNSET
    if text == NONE:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise Failure(Exit.USAGE, f"{option} is a number from {least} on, or none, not {text!r}", "")
    return int(text)
