"""A stream of gigabytes is appended and read; the server's memory stays where it was.

The durable engine keeps the newest bytes of streams in memory until a checkpoint has written them to
files: 32 MiB fill it, and as much again may arrive while it runs. What a server needs beyond these
tails must not depend on how long the stream is.
"""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from big.memory import MIB, watching
from millstream import DurableStream, stream
from running import millstream

APPEND_BYTES = 2**20
LINE_BYTES = 1024
TAIL_BYTES = 2 * 32 * MIB
MAX_GROWTH_BYTES = 64 * MIB


def lines(first: int, size: int) -> bytes:
    """Numbered lines of 1 KiB each, so that nothing repeats."""
    return b"".join(
        b"%020d " % n + b"x" * (LINE_BYTES - 22) + b"\n" for n in range(first, first + size // LINE_BYTES)
    )


def append_and_read(scratch: Path, size: int, *, progress: bool = False) -> str:
    """Append and read so many bytes with plain clients; gives what it took, or fails."""
    size -= size % APPEND_BYTES
    options = ["--store", "log", "--data", str(scratch / "data"), "--max-stream-bytes", "0"]
    with millstream(*options) as server, watching(server.pid) as peaks:
        idle = peaks.now["server"]
        log = DurableStream.create(f"{server.url}/big", content_type="text/plain")
        written, read = hashlib.sha256(), hashlib.sha256()
        begun_s = time.monotonic()
        for done in range(0, size, APPEND_BYTES):
            body = lines(done // LINE_BYTES, APPEND_BYTES)
            written.update(body)
            log.append(body)
            if progress and done % (512 * MIB) == 0:
                print(f"  {done // MIB} MiB appended, server {peaks.now['server'] // MIB} MiB", flush=True)
        log.close()
        append_s, appended_peak = time.monotonic() - begun_s, peaks.largest["server"]
        begun_s, count = time.monotonic(), 0
        for piece in _pieces(log.url):
            read.update(piece)
            count += len(piece)
        read_s = time.monotonic() - begun_s
        grown = peaks.largest["server"] - idle
    assert count == size, f"{count} bytes came back, not {size}"
    assert read.digest() == written.digest(), "other bytes came back"
    assert grown < TAIL_BYTES + MAX_GROWTH_BYTES, f"the server grew by {grown // MIB} MiB"
    mib = size // MIB
    return (
        f"{mib} MiB appended at {mib / append_s:.0f} MiB/s, read at {mib / read_s:.0f} MiB/s; server:"
        f" {idle // MIB} MiB idle, {appended_peak // MIB} peak of appending, {peaks.mib('server')} peak"
    )


def _pieces(url: str) -> Iterator[bytes]:
    with stream(url) as response:
        yield from response.iter_bytes()
        assert response.stream_closed
