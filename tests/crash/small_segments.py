"""`millstream serve` with a log that is cut into small segments and checkpointed all the time.

So that a test of seconds meets what a server meets in weeks: new segments, old ones used again, rows and
files written, between any two requests.

    python tests/crash/small_segments.py serve --data DATA
"""

from millstream.cli.main import run
from millstream.store.log import stream_cache
from millstream.store.log.opening import folder_store
from millstream.store.log.saving import checkpoint

if __name__ == "__main__":
    defaults = folder_store.__kwdefaults__
    assert defaults is not None
    defaults["segment_bytes"] = 16 * 1024
    checkpoint._DUE_AGE_MS = 200
    stream_cache._EVICTION_INTERVAL_MS = 200
    run()
