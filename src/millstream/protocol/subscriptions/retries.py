"""When a delivery that failed is tried again: after 1 s, 2 s, 4 s and so on up to 60 s, each up to 20 % off.

The random part is an argument, from 0 to 1. Without it, all subscriptions of a receiver that was away for a
while would come back in the same moment.

PROTOCOL.md 7.1; rule S1.
"""

from typing import Final

FIRST_MS: Final = 1_000
MOST_MS: Final = 60_000
JITTER: Final = 0.2


def delay_ms(failures: int, chance: float) -> int:
    """Give the time to wait after so many failures in a row."""
    base_ms = min(MOST_MS, FIRST_MS << min(failures - 1, 10))
    return round(base_ms * (1 + JITTER * (2 * chance - 1)))
