"""`millstream backup` and `millstream restore`: copy a data folder, and restore a copy."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def backup(
    data: Annotated[Path, typer.Argument(help="The data folder of a log store; a server may be using it.")],
    to: Annotated[Path, typer.Option(help="New folder, or new file: .tar, .tar.gz, .tgz.")],
) -> None:
    """Copy a data folder, even while a server uses it. The copy holds everything acknowledged until now."""
    from millstream.store.base import StoreError  # an extra, and slow to load
    from millstream.store.log.tools.archives import new_archive
    from millstream.store.log.tools.backup import back_up

    try:
        with new_archive(to) as archive:
            copied = back_up(data, archive)
    except StoreError as error:
        typer.echo(f"millstream backup: {error}", err=True)
        sys.exit(1)
    typer.echo(f"{to}: {copied.files} files, {copied.bytes} bytes, up to record {copied.last_lsn}.")


def restore(
    archive: Annotated[Path, typer.Argument(help="A backup made by `millstream backup`.")],
    to: Annotated[Path, typer.Option(help="The data folder to create; it must not exist, or be empty.")],
) -> None:
    """Restore a backup to a data folder, and verify it."""
    from millstream.store.base import StoreError  # an extra, and slow to load
    from millstream.store.log.tools.backup import restore as restore_folder

    try:
        report = restore_folder(archive, to)
    except StoreError as error:
        typer.echo(f"millstream restore: {error}", err=True)
        sys.exit(1)
    typer.echo(f"{to} is sound: {report.streams} streams, up to record {report.last_lsn}.")
