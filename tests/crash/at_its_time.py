"""`millstream`, with a clock that starts at a given time: for data folders that were written then.

Checkpoints are taken all the time, so that a server of a second takes some.

python tests/crash/at_its_time.py 1794858277927 serve --data DATA
"""

import sys
import time

from millstream.cli.main import run
from millstream.server import run as running
from millstream.store.log.saving import checkpoint

if __name__ == "__main__":
    behind_ms = time.time_ns() // 1_000_000 - int(sys.argv.pop(1))
    running.clock_ms = lambda: time.time_ns() // 1_000_000 - behind_ms
    checkpoint._DUE_AGE_MS = checkpoint._SOON_AGE_MS = checkpoint._FREEING_AGE_MS = 100
    run()
