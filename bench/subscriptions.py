"""What 10,000 subscriptions with globs cost an append: one that none of them matches, and one that one does.

Rounds with subscriptions and without take turns in one process, and the best of each counts: other work on
the machine only ever makes a round slower.

    python -m bench.subscriptions
"""

import argparse
import asyncio
import time

import msgspec

from millstream.protocol.requests import AppendRequest, CreateRequest
from millstream.protocol.subscriptions.configurations import parse_configuration
from millstream.protocol.subscriptions.glob_index import GlobIndex
from millstream.protocol.subscriptions.keys import Keys, SigningKey
from millstream.store.memory import memory_store
from millstream.store.pending import Pending
from millstream.store.table import Table

KEYS = Keys(b"t" * 32, (SigningKey(b"p" * 32, b"q" * 32),))
KINDS = ("tenant-{}/events/*", "tenant-{}/**", "**/topic-{}", "users/eu-{}-*/inbox", "a/*/{}/**/z")
APPEND = AppendRequest(b"x" * 100, b"text/plain", closes=False, stamp=None, seq=None)


async def subscribe(store: Table, count: int) -> None:
    for number in range(count):
        asked = {
            "type": "pull-wake",
            "pattern": KINDS[number % len(KINDS)].format(number),
            "wake_stream": "wake",
        }
        configuration = parse_configuration(msgspec.json.encode(asked), "/")
        registry = store.subscriptions.registry
        created = registry.create(f"s{number}", "/", configuration, "http://h", KEYS, 0)
        if isinstance(created, Pending):
            await created


def measure(store: Table, names: list[str], rounds: int) -> float:
    """Give the processor time of an append, in microseconds."""
    began_s = time.thread_time()
    for number in range(rounds):
        for name in names:
            store.append(name, APPEND, number)
    return (time.thread_time() - began_s) / (rounds * len(names)) * 1e6


async def run(count: int, rounds: int) -> dict[str, float]:
    """Compare, and give the ratios."""
    names = {
        "not matched": [f"/chat/{number}/messages" for number in range(1000)],
        "matched": [f"/tenant-{number}/events/x" for number in range(0, 1000 * len(KINDS), len(KINDS))],
    }
    stores = {"none": memory_store(), "many": memory_store()}
    for store in stores.values():
        for name in [*names["not matched"], *names["matched"], "/wake"]:
            store.create(name, CreateRequest(content_type=b"text/plain"), 0)
    await subscribe(stores["many"], count)
    ratios = {}
    for kind, chosen in names.items():
        best = dict.fromkeys(stores, float("inf"))
        for turn in range(rounds):
            for which in sorted(stores, reverse=turn % 2 == 0):
                best[which] = min(best[which], measure(stores[which], chosen, 5))
        ratios[kind] = best["many"] / best["none"]
        print(
            f"{kind}: {best['none']:.2f} us without, {best['many']:.2f} us with {count}: {ratios[kind]:.2f}x"
        )
    return ratios


def slow_glob() -> float:
    """Give the time to match a glob of 20 `**`, in milliseconds."""
    index = GlobIndex()
    index.add("/" + "/".join(["**", "a"] * 20 + ["**", "c"]), "s")
    path = "/" + "/".join(["a"] * 100)
    began_s = time.thread_time()
    index.owners(path)
    return (time.thread_time() - began_s) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.subscriptions, arguments.rounds))
    print(f"a glob of 20 ** against a path of 100 segments: {slow_glob():.2f} ms")


if __name__ == "__main__":
    main()
