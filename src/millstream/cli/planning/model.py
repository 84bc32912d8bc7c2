"""The capacity model: what is asked for, times what each of it costs, and what of it breaks first.

        demand    appends, readers, reads, retention          what the application does
        costs     processor time and bytes of each            measured (`bench/unit_costs.py`)
        plan      servers, database, bytes out
        limits    how far each thing is from where it ends, the nearest first, and what one does then

Appends that reach a server while its transaction is under way share the next one. So the busier a server is,
the less an append costs. PostgreSQL lets one transaction at a time notify others and sync its log, so all
servers together have no more of them than the disk has syncs; appends wait for larger ones then.
"""

import math
from typing import Final

import msgspec

from millstream.cli.planning.costs import MEASURED, Costs

BUSY: Final = 0.6
"""How much of its processors a machine uses at most, so that bursts do not wait."""
LEAST_SERVERS: Final = 2  # one may be lost
DAY_S: Final = 86_400
MIB: Final = 2**20
GIB: Final = 2**30


class Demand(msgspec.Struct, frozen=True):
    """What is asked for."""

    streams: int
    appends_per_s: float
    append_bytes: int
    readers: int
    reads_per_s: float
    retain_days: float
    hottest: float
    """Appends a second to the stream that gets most."""
    server_cores: int
    database_cores: int

    @property
    def deliveries_per_s(self) -> float:
        """Appends that go out to live readers, who are spread over the streams evenly."""
        return self.appends_per_s * self.readers / self.streams

    @property
    def kept_appends(self) -> float:
        """How many appends there are at a time."""
        return self.appends_per_s * DAY_S * self.retain_days


class Plan(msgspec.Struct, frozen=True):
    """What is needed."""

    servers: int
    processes: int
    """Of each server."""
    server_cores: float
    """That all servers together keep busy."""
    server_memory_bytes: float
    database_cores: float
    transactions_per_s: float
    log_bytes_per_s: float
    database_bytes: float
    connections: int
    out_bytes_per_s: float


class Limit(msgspec.Struct, frozen=True):
    """How much of something is used, and what one does when it ends."""

    what: str
    used: float
    """Of what there is; 1 is all."""
    then: str


def plan(demand: Demand, costs: Costs = MEASURED) -> Plan:
    """Find how many servers are needed: each more makes smaller transactions, so they are tried in turn."""
    count = LEAST_SERVERS
    while True:
        found = _with(demand, costs, count)
        if found.server_cores <= count * demand.server_cores * BUSY or count >= 1000:
            return found
        count += 1


def _with(demand: Demand, costs: Costs, servers: int) -> Plan:
    processes = servers * demand.server_cores
    of_one_round = demand.appends_per_s / processes * costs.round_s
    transactions = demand.appends_per_s / max(1.0, of_one_round, demand.appends_per_s / costs.syncs_per_s)
    # Processes with readers of a stream load what another one has appended.
    elsewhere = min(processes - 1.0, demand.readers / demand.streams * (1 - 1 / processes))
    wakes = demand.appends_per_s * elsewhere
    server_us = (
        demand.appends_per_s * costs.append_server_us
        + transactions * costs.transaction_server_us
        + transactions * (processes - 1) * costs.notice_us
        + wakes * costs.wake_server_us
        + demand.deliveries_per_s * costs.delivery_us
        + demand.reads_per_s * costs.read_server_us
    )
    database_us = (
        demand.appends_per_s * costs.append_database_us
        + transactions * costs.transaction_database_us
        + wakes * costs.wake_database_us
        + demand.reads_per_s * costs.read_database_us
    )
    kept = demand.kept_appends * (demand.append_bytes + costs.kept_bytes)
    readers = demand.readers / servers * costs.reader_bytes
    out = (demand.deliveries_per_s + demand.reads_per_s) * (demand.append_bytes + costs.answer_bytes)
    return Plan(
        servers=servers,
        processes=demand.server_cores,
        server_cores=server_us / 1e6,
        server_memory_bytes=demand.server_cores * costs.process_bytes + readers,
        database_cores=database_us / 1e6,
        transactions_per_s=transactions,
        log_bytes_per_s=demand.appends_per_s * (demand.append_bytes + costs.log_bytes),
        database_bytes=kept + demand.streams * costs.stream_bytes,
        connections=processes * (costs.connections + 1),
        out_bytes_per_s=out,
    )


def limits(demand: Demand, found: Plan, costs: Costs = MEASURED) -> list[Limit]:
    """Give what ends where, the nearest first."""
    readers = demand.readers / (found.servers * found.processes)
    nearest = [
        Limit(
            "processors of the database",
            found.database_cores / (demand.database_cores * BUSY),
            "a larger database, then streams in several databases, by their names",
        ),
        Limit(
            "appends to one stream, which one transaction at a time writes",
            demand.hottest / costs.stream_appends_per_s,
            "send the writers of that stream to one server; then several streams instead of one",
        ),
        Limit(
            "appends that share a transaction, for all of which their clients wait",
            demand.appends_per_s / found.transactions_per_s / costs.most_together,
            "a disk with faster syncs; then streams in several databases, by their names",
        ),
        Limit(
            "writing of the database's log",
            found.log_bytes_per_s / costs.disk_bytes_per_s,
            "a faster disk; appends that bring several messages at once",
        ),
        Limit(
            "size of the database",
            found.database_bytes / costs.most_database_bytes,
            "archive to tables and keep less (--retain-seconds); then several databases",
        ),
        Limit(
            "connections to the database",
            found.connections / costs.most_connections,
            "--database-connections 2, max_connections, or a pooler",
        ),
        Limit(
            "live readers of one process",
            readers / costs.most_readers,
            "more servers, or a proxy that collapses long-polls: readers of one offset are one request then",
        ),
        Limit(
            "network of one server",
            found.out_bytes_per_s / found.servers / costs.network_bytes_per_s,
            "more servers; caches in front for what is read again",
        ),
    ]
    return sorted(nearest, key=lambda limit: -limit.used)


def scaled(demand: Demand, factor: float) -> Demand:
    """Give a demand with so many times the appends, readers and reads."""
    return msgspec.structs.replace(
        demand,
        appends_per_s=demand.appends_per_s * factor,
        readers=math.ceil(demand.readers * factor),
        reads_per_s=demand.reads_per_s * factor,
        hottest=demand.hottest * factor,
        streams=math.ceil(demand.streams * factor),
    )
