"""How the interpreter is set up for a process that is a server, and nothing else.

**Switches between threads.** While a thread writes a checkpoint, the event loop gets its turn after the
interpreter's switch interval, 5 ms by default, for every request that it takes up. With a tenth of that, the
slowest appends beside a checkpoint took a third of the time (`docs/design/packs.md`).

**Garbage.** Few of our objects can be part of a cycle. Streams, of which there may be a million, are none of
them (`gc=False`). Those that can are mostly changes that wait for a checkpoint: they live for seconds, and
looking at all of them again and again is in vain. So the collector runs more rarely than usual, and never
looks at what was there before the server began. There is most to look at in a checkpoint of many streams:
looking at everything stopped the server for a quarter of a second. So that waits until the checkpoint ends
(`collect_if_due`). From Python 3.14 on the collector itself does it in small steps.

An application that embeds streams decides for itself: nothing of this is done there.
"""

import gc
import sys

_SWITCH_INTERVAL_S = 0.0005
_YOUNG_OBJECTS = 2_000  # so many more than were freed; with more, garbage that holds content stays too long
_MIDDLE_AGED = 10  # collections of the young before one of those that have lived for a little longer
_DUE = 10  # collections of those before one of everything
_NEVER = 2**30


def set_up() -> None:
    """Set up the interpreter; called once, before the server begins."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _MIDDLE_AGED, _NEVER)


def collect_if_due(*, is_saving: bool) -> None:
    """Look for garbage everywhere, if that is due, and no checkpoint is under way; called every second."""
    if not is_saving and gc.get_count()[2] >= _DUE:
        gc.collect()
