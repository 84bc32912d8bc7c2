"""Content that a streaming replica has is read from it, and nobody is ever shown anything else for that.

Streams are one MiB and more, so that a server that starts must load them. Replaying is paused to leave the
replica behind for as long as a test wants. X8 (times) and forks come from the same rows.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from postgres.cluster import Cluster, new_folder, remove
from postgres.servers import serving
from postgres.switch import Switch
from running import Server

TEXT = {"content-type": "text/plain"}
PATIENCE_S = 60.0
BLOCK = b"0123456789abcdef" * 4096


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    """A database and its replica, which nothing waits for."""
    primary = Cluster(new_folder(), "wal_keep_size=64MB")
    replica = Cluster(new_folder(), begin=False)
    try:
        primary.base_backup(replica.folder, "-R", "-X", "stream", "--no-sync", "-c", "fast")
        replica.start()
        yield primary, replica
    finally:
        remove(replica)
        remove(primary)


def until(what: str, is_true: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < give_up_s, f"never: {what}"
        time.sleep(0.05)


def number(server: Server, name: str) -> float:
    """Give a metric, -1 if there is none."""
    lines = httpx.get(f"{server.url}/__ds/metrics").text.splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")), -1.0)


def reads(server: Server) -> float:
    return number(server, "millstream_replica_reads_total")


def has_all(server: Server) -> None:
    """Wait until the replica has what was written until now."""
    began_s = time.monotonic()

    def caught_up() -> bool:
        lag_s = number(server, "millstream_replica_lag_seconds")
        return 0 <= lag_s < time.monotonic() - began_s

    until("the replica has everything", caught_up)


def read_all(client: httpx.Client, url: str) -> bytes:
    content, offset = b"", "-1"
    while True:
        answer = client.get(url, params={"offset": offset}).raise_for_status()
        content += answer.content
        offset = answer.headers["stream-next-offset"]
        if answer.headers.get("stream-up-to-date") == "true":
            return content


def write(client: httpx.Client, url: str, blocks: int) -> bytes:
    client.put(url, headers=TEXT).raise_for_status()
    content = b""
    for turn in range(blocks):
        block = b"%06d" % turn + BLOCK
        client.post(url, content=block, headers=TEXT).raise_for_status()
        content += block
    return content


def test_content_comes_from_the_replica_and_what_it_lacks_from_the_database(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, replica = pair
    schema = primary.new_schema()
    url, options = primary.url(schema), ["--replica", replica.url(schema)]
    with serving(url) as writing, httpx.Client(timeout=PATIENCE_S) as client:
        content = write(client, f"{writing.url}/s", 40)
        client.put(
            f"{writing.url}/fork", headers={**TEXT, "stream-forked-from": "/s"}, content=b"more"
        ).raise_for_status()
        with serving(url, options=options) as server:
            has_all(server)
            assert read_all(client, f"{server.url}/s") == content
            assert reads(server) >= 2
            assert read_all(client, f"{server.url}/fork") == content + b"more"
        with serving(url, options=options) as server:  # with nothing in its memory
            has_all(server)
            replica.execute("SELECT pg_wal_replay_pause()")
            try:
                client.post(f"{writing.url}/s", content=b"new", headers=TEXT).raise_for_status()
                tail = client.head(f"{server.url}/s").headers["stream-next-offset"]
                assert read_all(client, f"{server.url}/s") == content + b"new"
                assert reads(server) >= 2  # long before its end
                assert client.get(f"{server.url}/s", params={"offset": tail}).content == b""
                # What is merged, trimmed, deleted and named again there, is what is shown.
                client.delete(f"{writing.url}/fork").raise_for_status()
                client.delete(f"{writing.url}/s").raise_for_status()
                assert client.get(f"{server.url}/s").status_code == 404
                again = write(client, f"{writing.url}/s", 2)
                assert read_all(client, f"{server.url}/s") == again
            finally:
                replica.execute("SELECT pg_wal_replay_resume()")


def test_a_replica_that_is_gone_is_not_missed_and_asked_again_when_it_is_back(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, replica = pair
    schema = primary.new_schema()
    url, options = primary.url(schema), ["--replica", replica.url(schema)]
    with serving(url) as writing, httpx.Client(timeout=PATIENCE_S) as client:
        content = write(client, f"{writing.url}/s", 20)
        with serving(url, options=options) as server:
            has_all(server)
            replica.stop(signal.SIGQUIT)
            assert read_all(client, f"{server.url}/s") == content
            assert reads(server) == 0
        with serving(url, options=options) as server:  # it starts without
            assert read_all(client, f"{server.url}/s") == content
            replica.start()
            more = write(client, f"{writing.url}/more", 20)
            has_all(server)
            assert read_all(client, f"{server.url}/more") == more
            assert reads(server) >= 1
            assert "the replica is not asked: it cannot be reached" in server.output()


def test_an_address_that_leads_to_a_replica_before_it_is_promoted_shows_nothing_old(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, replica = pair
    schema = primary.new_schema()
    with Switch(primary.port) as address, httpx.Client(timeout=PATIENCE_S) as client:
        url = primary.url(schema, port=address.port)
        with serving(url) as writing, serving(url) as server:  # which has never seen the stream
            client.put(f"{writing.url}/s", headers=TEXT, content=b"old").raise_for_status()
            until("the replica has the stream", lambda: _has(replica, schema))
            replica.execute("SELECT pg_wal_replay_pause()")
            client.post(f"{writing.url}/s", headers=TEXT, content=b" and new").raise_for_status()
            found: list[bytes] = []
            address.turn(replica.port)
            reading = threading.Thread(
                target=lambda: found.append(client.get(f"{server.url}/s").content), daemon=True
            )
            reading.start()
            reading.join(0.5)
            address.turn(primary.port)
            reading.join()
            replica.execute("SELECT pg_wal_replay_resume()")
            assert found == [b"old and new"]


def test_a_replica_with_another_history_is_not_asked(pair: tuple[Cluster, Cluster]) -> None:
    """One that is promoted while the database goes on, then the old database as a replica of nothing.

    The last test of the pair: they are none any more afterwards.
    """
    primary, replica = pair
    with httpx.Client(timeout=PATIENCE_S) as client:
        schema = primary.new_schema()
        url, other = primary.url(schema), replica.url(schema)
        with serving(url, options=["--replica", other]) as server:
            client.put(f"{server.url}/s", headers=TEXT).raise_for_status()
            has_all(server)
            replica.promote()
            with serving(other) as elsewhere:
                wrong = write(client, f"{elsewhere.url}/s2", 20)  # of the same id as what follows
                right = write(client, f"{server.url}/s2", 20)[::-1]
                client.delete(f"{server.url}/s2").raise_for_status()
                client.post(f"{elsewhere.url}/s", content=wrong, headers=TEXT).raise_for_status()
                client.post(f"{server.url}/s", content=right, headers=TEXT).raise_for_status()
        with serving(url, options=["--replica", other]) as server:
            assert read_all(client, f"{server.url}/s") == right
            assert reads(server) == 0
            assert "the replica is not asked" in server.output()
        primary.stop()
        (primary.folder / "standby.signal").touch()
        primary.start()
        with serving(other, options=["--replica", url]) as server:
            assert read_all(client, f"{server.url}/s") == wrong
            assert reads(server) == 0
            assert "it does not follow the history that the database writes" in server.output()


def _has(cluster: Cluster, schema: str) -> bool:
    return bool(cluster.query(f"SELECT to_regclass('{schema}.streams')")[0][0]) and bool(
        cluster.query(f"SELECT count(*) FROM {schema}.streams")[0][0]
    )


@pytest.mark.parametrize("store", ["memory", "log"])
def test_a_replica_needs_a_database(store: str) -> None:
    from postgres.test_workers import serve

    found = serve("--store", store, "--replica", "postgres://nobody@127.0.0.1:1/nowhere")
    assert found.returncode == 2
    assert "replica needs a database as the store" in found.stderr
