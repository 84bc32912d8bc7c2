"""`millstream migrate`: move all streams of a folder, a database or a server to another place."""

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.progress import ProgressBar
from millstream.cli.targets import Token, note
from millstream.cli.targets import check as check_server
from millstream.cli.terminals import inert_line
from millstream.cli.units import number, size

if TYPE_CHECKING:
    from millstream.migration.copying import Report, Verified

_SAID_EVERY_S: Final = 10.0


def migrate(
    source: Annotated[
        str,
        typer.Argument(
            help="A data folder that no server uses, postgres://..., or the URL of any server of the "
            "protocol, with the path below which its streams live.",
            metavar="SOURCE",
        ),
    ],
    destination: Annotated[
        str,
        typer.Argument(
            help="A data folder that no server uses, or postgres://...; made if it is not there.",
            metavar="DEST",
        ),
    ],
    names: Annotated[
        Path | None,
        typer.Option(
            help="File with the paths of the streams, one on each line, for a server that has no list."
        ),
    ] = None,
    token: Token = None,
    output_format: OutputFormat = None,
) -> None:
    """Move all streams to another place, verified. Run it again after an interruption: it goes on."""
    from millstream.migration import opening  # slow to load
    from millstream.migration.copying import Progress
    from millstream.migration.copying import migrate as move
    from millstream.store.base import StoreError

    output = StandardOutput(output_format)
    headers = {}
    if source.startswith(("http://", "https://")):
        headers = dict(check_server(source, token, "SOURCE").headers(source))
    wanted = None
    if names is not None:
        try:
            wanted = [line.strip() for line in names.read_text().splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(Exit.USAGE, f"{names} cannot be read: {error}") from None
    with ProgressBar("migrating") as bar:
        said = _Said(bar)

        def verified(stream: "Verified") -> None:
            bar.advance(1, 0)
            said.now_and_then()
            if not output.is_text:
                output.record(
                    {
                        "stream": stream.name,
                        "bytes": stream.bytes,
                        "sha256": stream.sha256,
                        "copied": stream.is_new,
                    }
                )

        def copied(bytes: int) -> None:
            bar.advance(0, bytes)
            said.now_and_then()

        try:
            ends = opening.source(source, headers, wanted), opening.destination(destination)
            report = asyncio.run(move(*ends, Progress(note, copied, verified)))
        except StoreError as error:
            raise Failure(Exit.FAILED, str(error)) from None
    _write(output, report)


class _Said:
    """Says how far it is, now and then, where there is no terminal for a bar."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar
        self._next_s = time.monotonic() + _SAID_EVERY_S
        self._is_needed = not sys.stderr.isatty()

    def now_and_then(self) -> None:
        """Say it, if the last time is long ago."""
        if self._is_needed and time.monotonic() > self._next_s:
            self._next_s = time.monotonic() + _SAID_EVERY_S
            note(f"{number(self._bar.items)} streams verified, {size(self._bar.bytes)} copied")


def _write(output: StandardOutput, report: "Report") -> None:
    if not output.is_text:
        output.record(
            {
                "streams": report.streams,
                "copied": report.copied,
                "bytes": report.bytes,
                "subscriptions": report.subscriptions,
                "notKept": dict(report.not_kept),
            }
        )
        return
    before = report.streams - report.copied
    output.line(
        f"{number(report.streams)} streams, {size(report.bytes)}: every digest is the same"
        + (f"; {number(before)} were there already" if before else "")
        + "."
    )
    if report.subscriptions:
        output.line(f"{number(report.subscriptions)} subscriptions.")
    for text, count in report.not_kept.items():
        output.line(inert_line(f"not kept ({number(count)}): {text}"))
