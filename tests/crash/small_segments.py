"""`millstream serve` with a log that is cut into small segments and checkpointed all the time.

So that a test of seconds meets what a server meets in weeks: new segments, old ones used again, rows and
files written, between any two requests.

    python tests/crash/small_segments.py serve --data DATA
"""

from millstream.cli.main import run
from millstream.store.log import eviction
from millstream.store.log.files import checkpointing
from millstream.store.log.opening import FolderStore

if __name__ == "__main__":
    defaults = FolderStore.__init__.__kwdefaults__
    assert defaults is not None
    defaults["segment_bytes"] = 16 * 1024
    checkpointing._DUE_AGE_MS = 200
    eviction._ROUND_AGE_MS = 200
    run()
