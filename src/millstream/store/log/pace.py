"""How work in a background thread shares the interpreter with the event loop.

A thread that runs Python keeps the interpreter's lock until another one has waited for it for the switch
interval. The event loop needs the lock anew for every connection that it reads from. So while a thread went
through a hundred thousand streams without a pause, an append took four times as long as usual. Work on many
items therefore rests for as long as it has worked, again and again:

        | work 0.2 ms | rest 0.2 ms | work 0.2 ms | rest 0.2 ms | ...

It takes twice as long. When that matters more, because writers or a shutdown wait for it, it does not rest.
"""

import time
from collections.abc import Callable
from typing import Final

Rest = Callable[[], None]
"""Called between two items of long work; it may sleep."""

_WORK_S: Final = 0.0002
_MOST_S: Final = 0.002  # an item may have waited for the disk, which holds up nobody


def no_rest() -> None:
    """Go on at once."""


def resting(
    sleep: Callable[[float], None],
    is_urgent: Callable[[], bool],
    clock_s: Callable[[], float] = time.monotonic,
) -> Rest:
    """Make the rests of one job, which begins now."""
    begun_s = clock_s()

    def rest() -> None:
        nonlocal begun_s
        worked_s = clock_s() - begun_s
        if worked_s >= _WORK_S:
            if not is_urgent():
                sleep(min(worked_s, _MOST_S))
            begun_s = clock_s()

    return rest
