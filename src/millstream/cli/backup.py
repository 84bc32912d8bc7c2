"""`millstream backup` and `millstream restore`: copy a data folder, and restore a copy."""

from pathlib import Path
from typing import Annotated

import typer

from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.progress import long_activity


def backup(
    data: Annotated[Path, typer.Argument(help="The data folder of a log store; a server may be using it.")],
    to: Annotated[Path, typer.Option(help="New folder, or new file: .tar, .tar.gz, .tgz.")],
    output_format: OutputFormat = None,
) -> None:
    """Copy a data folder, even while a server uses it. The copy holds everything acknowledged until now."""
    from millstream.store.base import StoreError  # slow to load
    from millstream.store.log.tools.archives import new_archive
    from millstream.store.log.tools.backup import back_up

    try:
        with long_activity(f"copying {data} ..."), new_archive(to) as archive:
            copied = back_up(data, archive)
    except StoreError as error:
        raise Failure(Exit.FAILED, str(error)) from None
    StandardOutput(output_format).result(
        f"{to}: {copied.files} files, {copied.bytes} bytes, up to record {copied.last_lsn}.",
        {"backup": str(to), "files": copied.files, "bytes": copied.bytes, "lastRecord": copied.last_lsn},
    )


def restore(
    archive: Annotated[Path, typer.Argument(help="A backup made by `millstream backup`.")],
    to: Annotated[Path, typer.Option(help="The data folder to create; it must not exist, or be empty.")],
    output_format: OutputFormat = None,
) -> None:
    """Restore a backup to a data folder, and verify it."""
    from millstream.store.base import StoreError  # slow to load
    from millstream.store.log.tools.backup import restore as restore_folder

    try:
        with long_activity(f"restoring {to}, and verifying it ..."):
            report = restore_folder(archive, to)
    except StoreError as error:
        raise Failure(Exit.FAILED, str(error)) from None
    StandardOutput(output_format).result(
        f"{to} is sound: {report.streams} streams, up to record {report.last_lsn}.",
        {"folder": str(to), "sound": True, "streams": report.streams, "lastRecord": report.last_lsn},
    )
