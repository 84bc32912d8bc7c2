"""Which end of a migration a name means: a URL of a database or of a server, or else a folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from millstream.migration.ends import Destination, Source
from millstream.migration.folders import Folder
from millstream.migration.servers import Server
from millstream.store.base import StoreError

if TYPE_CHECKING:
    from millstream.migration.databases import Postgres

_DATABASES: Final = ("postgres://", "postgresql://")
_SERVERS: Final = ("http://", "https://")


def source(name: str, headers: Mapping[str, str], names: Sequence[str] | None) -> Source:
    """Find the source."""
    if name.startswith(_SERVERS):
        return Server(name, headers, names)
    if names is not None:
        raise StoreError(
            "--names is for a server's URL: a folder and a database have lists of their streams."
        )
    return (
        _database(name, is_source=True) if name.startswith(_DATABASES) else Folder(Path(name), is_source=True)
    )


def destination(name: str) -> Destination:
    """Find the destination."""
    if name.startswith(_SERVERS):
        raise StoreError(
            "A migration goes to a data folder or to a database, where offsets and producers can be kept: "
            "give the --data or the --store of the server."
        )
    return (
        _database(name, is_source=False)
        if name.startswith(_DATABASES)
        else Folder(Path(name), is_source=False)
    )


def _database(url: str, *, is_source: bool) -> "Postgres":
    try:
        from millstream.migration.databases import Postgres  # needs an extra
    except ImportError:
        raise StoreError(
            "postgres://... needs the extra postgres: pip install 'millstream[postgres]'"
        ) from None
    return Postgres(url, is_source=is_source)
