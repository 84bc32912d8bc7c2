"""`millstream serve` with small log segments, so that a few changes fill several."""

from millstream.cli.main import run
from millstream.store.log.opening import folder_store

if __name__ == "__main__":
    defaults = folder_store.__kwdefaults__
    assert defaults is not None
    defaults["segment_bytes"] = 12 * 1024
    run()
