"""Servers that write to the same streams at once wait for each other in one order, or not at all.

Two stores write to the same streams, each time in another order. The database counts its deadlocks. Each of
them costs a second by default, so a handful makes servers that share streams slow.
"""

import asyncio
import random
import time

import pytest

from engines.driving import TEXT
from millstream.protocol.requests import AppendRequest, CreateRequest
from millstream.protocol.streams import Append
from millstream.store.pending import settled
from millstream.store.postgres import writing
from millstream.store.postgres.opening import postgres_store
from postgres.cluster import Cluster, shared

STREAMS = 64
ROUNDS = 8
MOST_ROUNDS = 200
PATIENCE_S = 60.0
NOW_MS = 1_000_000
WAITS = "SKIP LOCKED"


async def write_everywhere(url: str, least: int) -> int:
    """Append to all streams through two stores at once; gives how often one was slower than the other."""
    stores = [postgres_store(url) for _ in range(2)]
    dice = random.Random(1)
    names = [f"/s/{number}" for number in range(STREAMS)]
    for store in stores:
        await store.open()
    try:
        for name in names:
            await settled(stores[0].create(name, CreateRequest(b"", TEXT), NOW_MS))
        for turn in range(MOST_ROUNDS):
            if turn >= least and any(store.rounds.conflicts for store in stores):
                break
            for store in stores:
                for saved in store.cache.by_id.values():
                    saved.contended_until_s = 0.0  # each round begins without locks
            appends = []
            for store in stores:
                for name in dice.sample(names, len(names)):
                    request = AppendRequest(b"x", TEXT, closes=False, stamp=None, seq=None)
                    appends.append(store.append(name, request, NOW_MS))
            for pending in appends:
                assert isinstance(await settled(pending), Append)
        return sum(store.rounds.conflicts for store in stores)
    finally:
        for store in stores:
            await store.close()


def deadlocks(cluster: Cluster, application: str) -> int:
    """Count the deadlocks that there ever were, once the connections of an application have ended."""
    sql = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{application}'"
    give_up_s = time.monotonic() + PATIENCE_S
    while cluster.query(sql)[0][0]:
        assert time.monotonic() < give_up_s
        time.sleep(0.02)
    return int(cluster.query("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'")[0][0])


def count_deadlocks(least: int) -> tuple[int, int]:
    """Write through two stores, and count deadlocks and conflicts."""
    cluster = shared()
    schema = cluster.new_schema()
    before = deadlocks(cluster, schema)
    url = f"{cluster.url(schema)}%20-cdeadlock_timeout%3D10ms&application_name={schema}"
    conflicts = asyncio.run(write_everywhere(url, least))
    return deadlocks(cluster, schema) - before, conflicts


def test_writers_of_the_same_streams_meet_no_deadlock() -> None:
    found, conflicts = count_deadlocks(ROUNDS)
    assert conflicts, "the stores did not meet: this shows nothing"
    assert found == 0


def test_rounds_that_waited_for_locks_in_any_order_would_meet_deadlocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the test above finds: streams are locked in any order, slowly, and others are waited for."""
    careless = writing._CHANGE.replace("SELECT w.*", "SELECT pg_sleep(0.001), w.*").replace(
        f"FOR UPDATE OF s {WAITS}", "ORDER BY random() FOR UPDATE OF s"
    )
    assert WAITS not in careless and "pg_sleep" in careless
    monkeypatch.setattr(writing, "_CHANGE", careless)
    assert count_deadlocks(2)[0] > 0
