"""How the interpreter is set up for a process that is a server, and nothing else.

**Switches between threads.** While a thread writes a checkpoint, the event loop gets its turn after the
interpreter's switch interval, 5 ms by default, for every request that it takes up. With a tenth of that, the
slowest appends beside a checkpoint took a third of the time (`docs/design/packs.md`).

**Garbage.** Few of our objects can be part of a cycle. Streams, of which there may be a million, are none of
them (`gc=False`). Those that can are mostly changes that wait for a checkpoint: they live for seconds, and
looking at all of them again and again is in vain. So the collector runs more rarely than usual, and never
looks at what was there before the server began.

An application that embeds streams decides for itself: nothing of this is done there.
"""

import gc
import sys

_SWITCH_INTERVAL_S = 0.0005
_YOUNG_OBJECTS = 2_000  # so many more than were freed; with more, garbage that holds content stays too long
_GENERATIONS = 10, 10


def set_up() -> None:
    """Set up the interpreter; called once, before the server begins."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *_GENERATIONS)
