"""How much processor time a process has used, all its threads together, or with its children."""

import os
from pathlib import Path


def cpu_seconds(pid: int, *, main_thread: bool = False) -> float | None:
    """User and system time of `pid`, or of its first thread, so far; None where there is no /proc to ask."""
    try:
        stat = Path(f"/proc/{pid}/task/{pid}/stat" if main_thread else f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None
    # The command name may hold spaces; it ends at the last parenthesis. Then utime and stime are
    # the 12th and 13th fields, in clock ticks (proc(5)).
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family_cpu_seconds(pid: int) -> float | None:
    """User and system time of all that `pid` started, and they in turn, the ended ones included."""
    children: dict[int, list[int]] = {}
    used_s: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        children.setdefault(int(fields[1]), []).append(int(folder.name))
        used_s[int(folder.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    if pid not in used_s:
        return None
    total_s, found = 0.0, list(children.get(pid, []))
    for one in found:
        total_s += used_s[one]
        found += children.get(one, [])
    return total_s


class Cpu:
    """A stopwatch for the processor time of one process, or of its first thread: a server's event loop."""

    def __init__(self, pid: int, *, main_thread: bool = False) -> None:
        self._pid = pid
        self._main_thread = main_thread
        self._start_s = cpu_seconds(pid, main_thread=main_thread)

    def us_per(self, work: float) -> float | None:
        """Microseconds spent since the start for each unit of `work`; None when unknown."""
        now_s = cpu_seconds(self._pid, main_thread=self._main_thread)
        if now_s is None or self._start_s is None or not work:
            return None
        return (now_s - self._start_s) * 1e6 / work
