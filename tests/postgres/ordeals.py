"""The long forms of the tests of several servers, for `python -m tests.crash.torture`."""

import random
import signal
from pathlib import Path

from crash.deliveries import Ordeal
from crash.processes import kill, port_of
from postgres.cluster import Cluster, binaries, new_folder, remove
from postgres.histories import check_histories
from postgres.replica_readers import read_from_a_replica
from postgres.servers import several, start
from postgres.test_deliveries import OPTIONS, until_more
from postgres.test_faults import check, cut_connections, promoted
from running import announced

_AT_ONCE = 10  # histories on the same servers


def why_not() -> str | None:
    """Say why none of this can run."""
    return "PostgreSQL is not installed" if binaries() is None else None


def histories(scratch: Path, scale: float) -> str:
    """Play histories through three servers, of which some are killed in each; every other one compares."""
    total, done, summaries = max(2, round(100 * scale)), 0, []
    cluster = Cluster(new_folder())
    try:
        while done < total:
            seeds = range(done, min(total, done + _AT_ONCE))
            compares = done // _AT_ONCE % 2 == 1
            url = cluster.url(cluster.new_schema())
            found = check_histories(url, seeds, clients=8, steps=100, compares=compares, kills=3)
            summaries.append(found)
            done += len(seeds)
            print(f"  {done} histories: {found}", flush=True)
    finally:
        remove(cluster)
    return f"{total} histories with 3 kills each ({summaries[-1]})"


def faults(scratch: Path, scale: float) -> str:
    """Restart the database, end it, cut its connections, each while producers write through two servers."""
    total = max(4, round(100 * scale))
    cluster = Cluster(new_folder())
    dice = random.Random(1)
    counts = dict.fromkeys(["fast", "immediate", "kill -9", "cut"], 0)
    signals = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "kill -9": signal.SIGKILL}
    try:
        for turn in range(total):
            kind = dice.choice(list(counts)) if turn >= len(counts) else list(counts)[turn]
            counts[kind] += 1

            def fault(kind: str = kind) -> None:
                if kind == "cut":
                    cut_connections(cluster)
                else:
                    cluster.stop(signals[kind])
                    cluster.start()

            check(cluster.url(cluster.new_schema()), fault)
            if turn % 10 == 9:
                print(f"  {turn + 1} faults", flush=True)
    finally:
        remove(cluster)
    named = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"{named}: nothing acknowledged is lost or doubled"


def promotions(scratch: Path, scale: float) -> str:
    """Kill the primary and promote its synchronous replica."""
    total = max(1, round(20 * scale))
    for turn in range(total):
        promoted()
        print(f"  {turn + 1} promotions", flush=True)
    return f"{total} primaries killed, their replicas promoted: nothing acknowledged is lost or doubled"


def replica(scratch: Path, scale: float) -> str:
    """Let servers read from a replica that pauses and dies."""
    return read_from_a_replica(max(1, round(20 * scale)))


def deliveries(scratch: Path, scale: float) -> str:
    """Kill one of two servers that share subscriptions, again and again."""
    cluster = Cluster(new_folder())
    url, kills, dice = cluster.url(cluster.new_schema()), max(2, round(100 * scale)), random.Random(1)
    try:
        with several(url, 2, OPTIONS) as servers:
            ordeal = Ordeal([port_of(server) for server in servers], seed=1)
            ordeal.set_up()
            ordeal.start()
            try:
                for _ in range(kills):
                    until_more(ordeal)
                    number = dice.randrange(2)
                    kill(servers[number])
                    ordeal.counts["kills"] += 1
                    servers[number] = start(url, ordeal.ports[number], OPTIONS)
                    announced(servers[number])
                until_more(ordeal)
                ordeal.finish()
            finally:
                ordeal.is_stopping = True
                for server in servers:
                    server.stop()
            assert not ordeal.wrong, ordeal.wrong
    finally:
        remove(cluster)
    return ", ".join(f"{count} {name}" for name, count in ordeal.counts.items())
