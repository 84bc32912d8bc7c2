"""How much memory a process holds, and how many files it may open."""

import resource
import subprocess
from pathlib import Path


def resident_bytes(pid: int) -> int:
    """The resident set of `pid`: what the operating system has given it, garbage included."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except FileNotFoundError:  # no Linux: ps knows, in KiB
        ps = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
        return int(ps.stdout) * 1024
    return int(pages) * resource.getpagesize()


def allow_many_connections(wanted: int = 20_000) -> None:
    """Raise the limit on open files, which servers inherit: a thousand readers need more than 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def allowed_connections() -> int:
    """How many files a process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
