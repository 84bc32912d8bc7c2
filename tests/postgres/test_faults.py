"""The database restarts, dies, loses connections, is replaced by its replica: nothing acknowledged is lost.

Producers write all the time and repeat what had no answer. In the end each stream has every token once, in
order. The database syncs here, as it does by default.
"""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator

import asyncpg
import pytest

from crash.processes import Client, port_of
from postgres.cluster import Cluster, new_folder, remove
from postgres.servers import several
from postgres.switch import Switch

TEXT = {"content-type": "text/plain"}
WRITERS = 4
MORE = 15
"""How many appends of each writer are acknowledged before the fault, and again afterwards."""
PATIENCE_S = 60.0


class Writer(threading.Thread):
    """A producer that goes on, whatever happens."""

    def __init__(self, ports: list[int], number: int) -> None:
        super().__init__()
        self.path = f"/writer/{number}"
        self.acknowledged = 0
        self.refusals: list[int] = []
        self.failure: str | None = None
        self._clients = [Client(port) for port in ports]
        self._number = number
        self.is_stopped = False

    def run(self) -> None:
        while not self.is_stopped and self.failure is None:
            self._append(self.acknowledged)
        for client in self._clients:
            client.close()

    def _append(self, seq: int) -> None:
        stamp = {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(seq)}
        client = self._clients[(seq + self._number) % len(self._clients)]
        answer = client.request("POST", self.path, token(seq), {**TEXT, **stamp})
        if answer is not None and answer[0] in (200, 204):
            self.acknowledged += 1
        elif answer is None or answer[0] == 503:
            self.refusals.append(answer[0] if answer is not None else 0)
            time.sleep(0.02)
        else:
            self.failure = f"{answer[0]} for number {seq}: {answer[2]!r}"


def token(seq: int) -> bytes:
    return b"%06d;" % seq


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A database of its own, which syncs."""
    cluster = Cluster(new_folder())
    yield cluster
    remove(cluster)


def check(url: str, fault: Callable[[], None]) -> None:
    """Write through two servers while something happens to the database."""
    with several(url, 2) as servers:
        ports = [port_of(server) for server in servers]
        client = Client(ports[0])
        writers = [Writer(ports, number) for number in range(WRITERS)]
        for writer in writers:
            answer = client.request("PUT", writer.path, headers=TEXT)
            assert answer is not None and answer[0] == 201
        for writer in writers:
            writer.start()
        try:
            _until_more(writers, MORE)
            fault()
            _until_more(writers, MORE)
        finally:
            for writer in writers:
                writer.is_stopped = True
            for writer in writers:
                writer.join()
            client.close()
            if any(writer.failure for writer in writers):
                print(*[server.output() for server in servers])
        for writer in writers:
            assert writer.failure is None, writer.failure
            expected = b"".join(map(token, range(writer.acknowledged)))
            for port in ports:
                reader = Client(port)
                status, content, _ = reader.read_all(writer.path)
                reader.close()
                assert status == 200
                assert content in (expected, expected + token(writer.acknowledged)), (
                    "an append is lost or doubled"
                )
        assert all("Traceback" not in server.output() for server in servers), servers[0].output()


def _until_more(writers: list[Writer], count: int) -> None:
    wanted = [writer.acknowledged + count for writer in writers]
    give_up_s = time.monotonic() + PATIENCE_S
    while any(writer.acknowledged < least for writer, least in zip(writers, wanted, strict=True)):
        assert all(writer.failure is None for writer in writers), [writer.failure for writer in writers]
        assert time.monotonic() < give_up_s, "the servers did not recover"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_a_database_that_restarts_loses_nothing(cluster: Cluster, number: int) -> None:
    """Fast, immediate, and as a power cut ends it."""

    def restart() -> None:
        cluster.stop(number)
        cluster.start()

    check(cluster.url(cluster.new_schema()), restart)


def cut_connections(cluster: Cluster) -> None:
    """Cut all connections, again and again for half a second."""
    others = "pid <> pg_backend_pid() AND datname = 'postgres'"
    sql = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"

    async def cut() -> None:
        connection = await asyncpg.connect(cluster.url())
        for _ in range(10):
            await connection.fetch(sql)
            await asyncio.sleep(0.05)
        await connection.close()

    asyncio.run(cut())


def test_connections_that_are_cut_lose_nothing(cluster: Cluster) -> None:
    check(cluster.url(cluster.new_schema()), lambda: cut_connections(cluster))


def test_a_promoted_replica_has_all_that_was_acknowledged() -> None:
    promoted()


def promoted() -> None:
    """With synchronous commit. The primary is killed; an address that moves leads to the replica then."""
    primary = Cluster(new_folder(), "synchronous_standby_names=*")
    replica = Cluster(new_folder(), begin=False)
    try:
        primary.base_backup(replica.folder, "-R", "-X", "stream", "--no-sync", "-c", "fast")
        replica.start()
        with Switch(primary.port) as address:

            def promote() -> None:
                primary.stop(signal.SIGKILL)
                replica.promote()
                address.turn(replica.port)

            check(primary.url(primary.new_schema(), port=address.port), promote)
    finally:
        remove(replica)
        remove(primary)
