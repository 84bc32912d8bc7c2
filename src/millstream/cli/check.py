"""`millstream check`: verify a data folder that no server uses."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.progress import activity, long_activity
from millstream.cli.terminals import inert_line

if TYPE_CHECKING:
    from millstream.store.log.tools.check import Cut, Report


def check(
    data: Annotated[Path, typer.Argument(help="The data folder of a log store.")],
    cut: Annotated[
        bool, typer.Option("--repair", help="Truncate the log where it is damaged, after confirmation.")
    ] = False,
    to_newest: Annotated[
        bool, typer.Option("--convert", help="First convert streams of an older format, without waiting.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output_format: OutputFormat = None,
) -> None:
    """Verify a data folder that no server uses. Nothing is changed without --repair or --convert."""
    from millstream.store.base import StoreError  # slow to load
    from millstream.store.log.tools.check import repair, verify
    from millstream.store.log.tools.convert import convert

    output = StandardOutput(output_format)
    try:
        if to_newest:
            with activity(f"converting {data} ...") as say:
                count = convert(data, lambda done: say(f"converting {data}: {done} streams ..."))
            output.result(f"converted {count} streams", {"converted": count})
        with long_activity(f"verifying {data} ..."):
            report = verify(data)
        _write(output, report)
        if cut and report.cut is not None and report.can_be_cut:
            if not yes:
                question = f"Cut {report.cut.name} at byte {report.cut.position}?"
                typer.confirm(question, abort=True, err=not output.is_text)
            kept = repair(report)
            output.result(f"cut; what was there is now in {kept}", {"cut": True, "kept": str(kept)})
            report = verify(data)
            _write(output, report)
    except StoreError as error:
        raise Failure(Exit.FAILED, str(error)) from None
    sys.exit(Exit.DONE if report.is_sound else Exit.FAILED)


def _write(output: StandardOutput, report: "Report") -> None:
    notes = [*report.complaints, *([_describe(report, report.cut)] if report.cut is not None else [])]
    if not output.is_text:
        output.record(_fields(report, notes))
        return
    for note in notes:
        output.line(f"  {inert_line(note)}")
    summary = f"{report.folder} is damaged."
    if report.is_sound:
        summary = (
            f"{report.folder} is sound: {report.streams} streams, {report.parts} staged parts in files, "
            f"{report.segments} log segments, {report.last_lsn - report.applied_lsn} records since the "
            "last checkpoint."
        )
    output.line(inert_line(summary))


def _fields(report: "Report", notes: list[str]) -> dict[str, object]:
    return {
        "folder": str(report.folder),
        "sound": report.is_sound,
        "notes": notes,
        "canBeCut": report.can_be_cut,
        "streams": report.streams,
        "stagedParts": report.parts,
        "segments": report.segments,
        "lastRecord": report.last_lsn,
        "recordsSinceCheckpoint": report.last_lsn - report.applied_lsn,
    }


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
