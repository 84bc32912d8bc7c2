"""Migrates, and kills itself after so many batches: `killed.py SOURCE DEST BATCHES`."""

import asyncio
import os
import signal
import sys

from millstream.migration import databases, folders, opening
from millstream.migration.copying import Progress, migrate

folders.FLUSH_BYTES = databases.FLUSH_BYTES = 60_000
folders.FLUSH_STREAMS = databases.FLUSH_STREAMS = 5
folders.BATCH_BYTES = 10_000
left = int(sys.argv[3])


def copied(_: int) -> None:
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


progress = Progress(lambda _: None, copied, lambda stream: print(stream.name))
asyncio.run(migrate(opening.source(sys.argv[1], {}, None), opening.destination(sys.argv[2]), progress))
print("complete")
