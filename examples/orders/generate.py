"""Simulate a day of a shop: `python generate.py URL [ORDERS] [SEED]`.

It writes and closes shop/orders and shop/payments. Events arrive up to five minutes late. Some orders are
paid too late, some never. The output is deterministic for a seed.
"""

import random
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from millstream import DurableStream

OPENS = datetime(2026, 7, 1, 8, tzinfo=UTC)
HOURS = 8
LATENESS_S = 300
COUNTRIES = ("AT", "CH", "DE", "FR", "IT")
GOODS_CENTS = {"bread": 450, "cheese": 1290, "flour": 380, "honey": 890, "oil": 1650, "salt": 120}

Event = dict[str, Any]


def generate(orders: int, seed: int) -> tuple[list[Event], list[Event]]:
    """Generate orders and payments, in order of arrival."""
    chance = random.Random(seed)
    ordered, paid = [], []
    for number in range(orders):
        at = OPENS + timedelta(seconds=chance.randrange(HOURS * 3600))
        goods = chance.sample(sorted(GOODS_CENTS), chance.randint(1, 4))
        order = {
            "order": f"o{number:06}",
            "at": at.isoformat(),
            "country": chance.choice(COUNTRIES),
            "goods": goods,
        }
        ordered.append(order)
        if chance.random() < 0.1:
            continue
        minutes = chance.uniform(16, 30) if chance.random() < 0.05 else chance.uniform(0.2, 14.5)
        cents = sum(GOODS_CENTS[good] for good in goods)
        moment = (at + timedelta(minutes=minutes)).replace(microsecond=0)
        paid.append({"order": order["order"], "at": moment.isoformat(), "cents": cents})
    return _arriving(ordered, chance), _arriving(paid, chance)


def _arriving(events: list[Event], chance: random.Random) -> list[Event]:
    def arrival(event: Event) -> datetime:
        return datetime.fromisoformat(event["at"]) + timedelta(seconds=chance.uniform(0, LATENESS_S))

    return sorted(events, key=arrival)


def main(url: str, orders: int = 2000, seed: int = 1) -> None:
    """Write the streams."""
    for name, events in zip(("orders", "payments"), generate(orders, seed), strict=True):
        stream = DurableStream.create(f"{url}/shop/{name}", content_type="application/json")
        stream.append_all(events)
        stream.close()
        print(f"shop/{name}: {len(events)} events")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
