"""`millstream serve` with a log that is cut into small segments and checkpointed all the time.

So that a test of seconds meets what a server meets in weeks: new segments, old ones used again, rows and
files written, packs filled, outgrown and emptied, streams that left memory and are loaded again, between any
two requests.

    python tests/crash/small_segments.py serve --data DATA
"""

from millstream.cli.main import run
from millstream.store.log import scrub
from millstream.store.log.cache import machine_memory
from millstream.store.log.files import layout
from millstream.store.log.opening import folder_store
from millstream.store.log.saving import checkpoint, reclaiming

if __name__ == "__main__":
    defaults = folder_store.__kwdefaults__
    assert defaults is not None
    defaults["segment_bytes"] = 16 * 1024
    checkpoint._DUE_AGE_MS = checkpoint._SOON_AGE_MS = checkpoint._FREEING_AGE_MS = 200
    reclaiming._STEP_INTERVAL_MS = 200
    scrub._STEP_INTERVAL_MS = scrub._ROUND_INTERVAL_MS = 200
    layout.PACK_BYTES = 4 * 1024
    layout.PACKED_BYTES = 2 * 1024
    layout.MAX_SLOTS = 3
    machine_memory._LEAST_BYTES = machine_memory._MOST_BYTES = 5_000
    run()
