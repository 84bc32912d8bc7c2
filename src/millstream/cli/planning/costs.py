"""What each thing costs a server and its database: measured, but for the limits of other people's machines.

Processor times are the least of several rounds of `python -m bench.unit_costs` with 100 bytes an append, on
2 processors of a cloud (AMD EPYC), Python 3.11, PostgreSQL 15 with its default durability, in November 2026.
Memory of a reader is from `python -m bench.peers`, what a stream takes from `python -m bench.postgres`. What
depends on how many appends share a transaction was split into what each append and each transaction takes,
from one writer and from 64.
"""

from typing import Final

import msgspec


class Costs(msgspec.Struct, frozen=True):
    """Unit costs."""

    append_server_us: float
    append_database_us: float
    transaction_server_us: float
    transaction_database_us: float
    notice_us: float
    """Of each other process, for each transaction."""
    wake_server_us: float
    """Of a process, for each append elsewhere that its readers follow."""
    wake_database_us: float
    delivery_us: float
    """Of one append to one live reader."""
    read_server_us: float
    read_database_us: float

    round_s: float
    """How long a transaction takes: what arrives meanwhile shares the next one."""
    stream_appends_per_s: float
    """The most that one stream took."""

    kept_bytes: float
    """Of each append beside its content, in the tables."""
    log_bytes: float
    """Of each append beside its content, in the write-ahead log."""
    stream_bytes: float
    answer_bytes: float
    """Of each delivery beside its content: an event, or the headers of a response."""
    reader_bytes: float
    """Memory for a live reader."""
    process_bytes: float
    connections: int
    """What `--database-connections` is by default."""

    # Not measured: what is usual. Compare with your own.
    syncs_per_s: float = 1_000
    most_together: float = 500
    """Many more take tens of milliseconds to decide and to write."""
    disk_bytes_per_s: float = 200e6
    network_bytes_per_s: float = 1.25e9
    most_database_bytes: float = 4e12
    most_connections: int = 100
    most_readers: int = 50_000


MEASURED: Final = Costs(
    append_server_us=35,
    append_database_us=9,
    transaction_server_us=600,
    transaction_database_us=460,
    notice_us=60,
    wake_server_us=390,
    wake_database_us=200,
    delivery_us=30,
    read_server_us=40,
    read_database_us=6,
    round_s=0.003,
    stream_appends_per_s=20_000,
    kept_bytes=130,
    log_bytes=530,
    stream_bytes=730,
    answer_bytes=200,
    reader_bytes=2_400,
    process_bytes=150e6,
    connections=6,
)
