"""Opening a store in PostgreSQL: the URL is the one that psql and every other tool take."""

from millstream.store.base import StoreError
from millstream.store.postgres.connections import Database
from millstream.store.postgres.store import PostgresStore

SCHEMES = ("postgres://", "postgresql://")
MEMORY_BYTES = 64 * 2**20
CONNECTIONS = 6


def is_postgres(store: str) -> bool:
    """Tell whether a setting names a database."""
    return store.startswith(SCHEMES)


def postgres_store(url: str, *, memory_bytes: int = 0, connections: int = CONNECTIONS) -> PostgresStore:
    """Make a store in a database."""
    if not is_postgres(url):
        raise StoreError(f"{url} is not the URL of a database, such as postgres://user@host/name")
    return PostgresStore(Database(url, connections), memory_bytes or MEMORY_BYTES)
