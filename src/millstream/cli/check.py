"""`millstream check`: verify a data folder that no server uses."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from millstream.store.log.tools.check import Cut, Report


def check(
    data: Annotated[Path, typer.Argument(help="The data folder of a log store.")],
    cut: Annotated[
        bool, typer.Option("--repair", help="Truncate the log where it is damaged, after confirmation.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Verify a data folder that no server uses. Nothing is changed without --repair."""
    from millstream.store.base import StoreError  # an extra, and slow to load
    from millstream.store.log.tools.check import repair, verify

    try:
        report = verify(data)
        _print(report)
        if cut and report.cut is not None and report.can_be_cut:
            if not yes:
                typer.confirm(f"Cut {report.cut.name} at byte {report.cut.position}?", abort=True)
            typer.echo(f"cut; what was there is now in {repair(report)}")
            report = verify(data)
            _print(report)
    except StoreError as error:
        typer.echo(f"millstream check: {error}", err=True)
        sys.exit(1)
    sys.exit(0 if report.is_sound else 1)


def _print(report: "Report") -> None:
    for complaint in report.complaints:
        typer.echo(f"  {complaint}")
    if report.cut is not None:
        typer.echo(f"  {_describe(report, report.cut)}")
    if report.is_sound:
        typer.echo(
            f"{report.folder} is sound: {report.streams} streams, {report.parts} staged parts in files, "
            f"{report.segments} log segments, {report.last_lsn - report.applied_lsn} records since the "
            "last checkpoint."
        )
    else:
        typer.echo(f"{report.folder} is damaged.")


def _describe(report: "Report", cut: "Cut") -> str:
    if cut.is_torn_tail:
        return (
            f"{cut.name}: {cut.lost_bytes} bytes from byte {cut.position} on are not records: a torn write, "
            "or left over from an earlier use. The next start truncates them."
        )
    if not report.can_be_cut:
        return "The catalog knows of later changes, so truncating the log would not help: restore a backup."
    more = f" and {len(cut.following)} later segments" if cut.following else ""
    return (
        f"--repair would remove {cut.lost_bytes} bytes{more}: every change after record {cut.last_lsn} "
        "would be lost."
    )
