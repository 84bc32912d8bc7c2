"""Cut the power of a file system: what is on its disk at one moment is all that is left.

A file system in a file is mounted, a server writes to it, and the file is copied while the server stands
still. What the kernel had not sent to the disk by then is not in the copy. The copy is mounted in its turn,
which replays the file system's own journal, and a server is started on it.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .ledger import Ledger
from .processes import free_port, serving

MAKERS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
SIZES = {"ext4": "64M", "xfs": "320M"}
MOUNT = {"ext4": "loop,commit=300", "xfs": "loop"}
# A copy has the same identity as what it was copied from, which XFS refuses to mount beside it.
MOUNT_COPY = {"ext4": "loop", "xfs": "loop,nouuid"}


def why_not(kind: str) -> str | None:
    """Say why power cannot be cut here, if so."""
    if os.geteuid() != 0:
        return "cutting the power of a file system needs root"
    if shutil.which(MAKERS[kind][0]) is None:
        return f"{MAKERS[kind][0]} is not installed"
    return None


@contextmanager
def mounted(image: Path, options: str) -> Iterator[Path]:
    """Mount a file system that is in a file."""
    folder = image.with_suffix(".mnt")
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", options, image, folder], check=True, capture_output=True)
    try:
        yield folder
    finally:
        for _ in range(50):
            if subprocess.run(["umount", folder], check=False, capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        folder.rmdir()


def make_image(path: Path, kind: str, size: str) -> None:
    """Make a file system in a file."""
    subprocess.run(["truncate", "-s", size, path], check=True)
    subprocess.run([*MAKERS[kind], path], check=True, capture_output=True)


def power_cuts(scratch: Path, cuts: int, kind: str, *, seed: int = 1, progress: bool = False) -> str:
    """Cut the power so many times while clients write; gives a summary, or fails."""
    dice = random.Random(seed)
    done = 0
    while done < cuts:
        image = scratch / f"{kind}.img"
        make_image(image, kind, SIZES[kind])
        with mounted(image, MOUNT[kind]) as folder:
            done += _cuts_of_one(scratch, image, folder, min(20, cuts - done), kind, dice)
        image.unlink()
        if progress:
            print(f"  {done} cuts", flush=True)
    return (
        f"{cuts} power cuts on {kind}: nothing acknowledged or seen was lost, doubled, reopened, resurrected"
    )


def _cuts_of_one(scratch: Path, image: Path, folder: Path, cuts: int, kind: str, dice: random.Random) -> int:
    port = free_port()
    ledger = Ledger(port)
    with serving(folder / "data", port) as server, ledger:
        for number in range(cuts):
            time.sleep(dice.uniform(0.02, 0.25))
            copy = scratch / f"cut-{number}.img"
            server.signal(signal.SIGSTOP)
            try:
                # What was answered before the disk stood still must be there.
                answered = ledger.snapshot()
                subprocess.run(["cp", "--sparse=always", image, copy], check=True)
            finally:
                server.signal(signal.SIGCONT)
            with mounted(copy, MOUNT_COPY[kind]) as after, serving(after / "data") as recovered:
                wrong = answered.verify(int(recovered.url.rpartition(":")[2]))
            copy.unlink()
            assert not wrong, f"cut {number}: {wrong}"
    return cuts
