"""How much memory streams may take when nobody says it: a share of what this process may have.

The machine's memory, or less where a control group limits the process or a group above it, as containers do.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_SHARE = 4
_LEAST_BYTES = 64 * 2**20
_MOST_BYTES = 2 * 2**30  # about two million streams
_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def default_bytes(groups: Path = _GROUPS, mount: Path = _MOUNT) -> int:
    """Give a quarter of the memory that there is, within bounds."""
    total_bytes = min([_physical_bytes(), *_limits(groups, mount)])
    return max(_LEAST_BYTES, min(_MOST_BYTES, total_bytes // _SHARE))


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _limits(groups: Path, mount: Path) -> Iterator[int]:
    """Give the limits of the process's control groups and of those above; other systems have none."""
    with contextlib.suppress(OSError):
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from _limits_of(mount, path, "memory.max")
            elif "memory" in controllers.split(","):
                yield from _limits_of(mount / "memory", path, "memory.limit_in_bytes")


def _limits_of(mount: Path, path: str, name: str) -> Iterator[int]:
    group = mount / path.strip("/")
    for folder in (group, *group.parents):
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            yield int((folder / name).read_text())
        if folder == mount:
            return
