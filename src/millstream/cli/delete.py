"""`millstream delete`: delete streams, by name or all of a prefix."""

import sys
from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.progress import activity
from millstream.cli.targets import QUICK, Profile, Server, Token, Url, completed
from millstream.cli.terminals import inert_line
from millstream.cli.units import counted, number
from millstream.client.core.errors import MillstreamError, UnauthorizedError
from millstream.client.sync import listing
from millstream.client.sync.deletions import delete_all


def delete(
    streams: Annotated[
        list[str] | None,
        typer.Argument(help="Paths on the server, or URLs.", metavar="STREAM", autocompletion=completed),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            help="Instead of STREAM: all streams whose paths begin so; / is every stream.", metavar="PATH"
        ),
    ] = None,
    glob: Annotated[
        str | None,
        typer.Option(
            help="Instead of STREAM, or with --prefix: all that match; * within a segment, ** any segments.",
            metavar="GLOB",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Delete streams; asks for confirmation on a terminal."""
    server = targets.server(url, token, profile)
    output = StandardOutput(output_format)
    if prefix is None and glob is None:
        _delete_named(server, streams or [], output, yes=yes)
    elif streams:
        raise Failure(Exit.USAGE, "STREAM excludes --prefix and --glob", "Give one of them")
    else:
        _delete_matching(server, _Selection(prefix, glob), output, yes=yes)


def _delete_named(server: Server, streams: list[str], output: StandardOutput, *, yes: bool) -> None:
    if not streams:
        raise Failure(Exit.USAGE, "Missing argument 'STREAM'", "Name streams, or give --prefix or --glob")
    found = [server.stream(name) for name in streams]
    for stream in found:
        name = targets.shown(stream.url)
        if not yes and sys.stdin.isatty():
            stream.head()  # do not ask about a stream that does not exist
            _ask(name, f"{name} was kept")
        stream.delete()
        output.result(f"{name} is deleted", {"stream": name, "deleted": True})


class _Selection:
    """Which streams are to be deleted."""

    def __init__(self, prefix: str | None, glob: str | None) -> None:
        for option, given in (("--prefix", prefix), ("--glob", glob)):
            if given == "":
                raise Failure(Exit.USAGE, f"{option} is empty", "`--prefix /` deletes every stream")
        self.prefix = None if prefix is None else f"/{prefix.lstrip('/')}"
        self.glob = glob

    def __str__(self) -> str:
        words = [
            f"whose paths begin with {self.prefix}" if self.prefix is not None else "",
            f"that match {self.glob}" if self.glob is not None else "",
        ]
        return " and ".join(filter(None, words))


def _delete_matching(server: Server, chosen: _Selection, output: StandardOutput, *, yes: bool) -> None:
    if not yes:
        if not sys.stdin.isatty():
            raise Failure(
                Exit.USAGE, "There is no terminal to ask on", "--yes deletes all that matches without asking"
            )
        if (amount := _amount(server, chosen)) is not None:
            _ask(f"{amount} {chosen}", "Nothing was deleted")
    deleted = 0

    def note(so_far: int) -> None:
        nonlocal deleted
        deleted = so_far
        show(f"{number(so_far)} deleted ...")

    try:
        with activity("deleting ...") as show:
            delete_all(
                server.url,
                chosen.prefix,
                glob=chosen.glob,
                on_progress=note,
                headers=server.headers(server.url),
                retry=QUICK,
            )
    except (MillstreamError, KeyboardInterrupt):
        if deleted:
            targets.note(f"{counted(deleted, 'stream', 'streams')} deleted before this.")
        raise
    fields = {"prefix": chosen.prefix, "glob": chosen.glob, "deleted": deleted}
    output.result(f"{counted(deleted, 'stream is', 'streams are')} deleted", fields)


def _amount(server: Server, chosen: _Selection) -> str | None:
    """Describe how many streams the question is about; None when there are none."""
    try:
        page = listing.fetch(
            server.url,
            prefix=chosen.prefix or "",
            glob=chosen.glob or "",
            headers=server.headers(server.url),
            retry=QUICK,
        )
    except UnauthorizedError:  # the token may delete what it may not read
        return "all streams"
    if page.cursor is not None:
        return f"more than {number(len(page.streams))} streams" if page.streams else "all streams"
    return counted(len(page.streams), "stream", "streams") if page.streams else None


def _ask(what: str, refused: str) -> None:
    typer.echo(f"Delete {inert_line(what)} for good? [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure(Exit.FAILED, refused)
