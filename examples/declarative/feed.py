"""Simulate sensors: `python feed.py URL [SEED]` appends one day of readings to streams below URL/sensors."""

import random
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from millstream import DurableStream

SENSORS = ("cellar", "kitchen", "roof")
READINGS = 100


def measure(seed: int) -> dict[str, list[dict[str, Any]]]:
    """Generate one day of readings for each sensor; deterministic for a seed."""
    chance = random.Random(seed)
    midnight = datetime(2026, 7, 1, tzinfo=UTC) + timedelta(days=seed)
    times = [midnight + timedelta(minutes=number * 1440 // READINGS) for number in range(READINGS)]
    return {
        sensor: [{"at": at.isoformat(), "celsius": round(chance.gauss(24, 4), 1)} for at in times]
        for sensor in SENSORS
    }


def main(url: str, seed: int = 0) -> None:
    """Append the readings of one day."""
    for sensor, readings in measure(seed).items():
        stream = DurableStream.create(f"{url}/sensors/{sensor}", content_type="application/json")
        stream.append_all(readings)
        print(f"{sensor}: {len(readings)} readings")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
