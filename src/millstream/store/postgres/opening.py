"""Opening a store in PostgreSQL: the URL is the one that psql and every other tool take."""

from millstream.store.postgres.connections import Database
from millstream.store.postgres.store import PostgresStore

MEMORY_BYTES = 64 * 2**20
CONNECTIONS = 6


def postgres_store(
    url: str, *, memory_bytes: int = 0, connections: int = CONNECTIONS, replica: str = ""
) -> PostgresStore:
    """Make a store in a database, of which there may be a replica to read from."""
    read_from = Database(replica, connections, is_replica=True) if replica else None
    return PostgresStore(Database(url, connections), memory_bytes or MEMORY_BYTES, read_from)
