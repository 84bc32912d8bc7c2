"""Many streams that expire at the same second, beside a client that has nothing to do with them.

Every request after that second must get 404, whether or not the streams have been removed yet. Removing them
must not be noticed by others, and must give their space back soon.
"""

import asyncio
import datetime
import random
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

from bench.rounds import Effort, Progress
from bench.scenarios.folders import disk_bytes, fill, has_room, serving
from bench.scenarios.streams import PATH, connection, request
from bench.scenarios.timing import Request, Timed, percentile_ms, timing
from bench.studies import Figure, Findings, Study
from millstream.protocol.expiry import parse_lifetime
from tests.running import Server

CONTENT = random.Random(19).randbytes(512).hex().encode()
INNOCENT = "/innocent"
PAUSE_S = 0.003  # of the innocent client
PROBE_S = 0.005  # between two requests for streams that have expired
QUIET_S = 3.0  # what the innocent client is compared with
SAMPLE = 0.1  # the part of the streams that is made first, to know how long all will take
STARTING_S = 10.0
MARGIN = 1.3
PATIENCE_S = 120.0
SETTLED_S = 20.0
PIPELINED = 200
BEFORE, AFTER = "before", "after"


@contextmanager
def about_to_expire(streams: int, progress: Progress) -> Iterator[tuple[Path, Server, float]]:
    """Streams on a running server, and when all of them expire (`time.time`): in some seconds."""
    with tempfile.TemporaryDirectory() as name:
        begun_s = time.perf_counter()
        asyncio.run(fill(Path(name), int(streams * SAMPLE), CONTENT))
        allowance_s = STARTING_S + MARGIN / SAMPLE * (time.perf_counter() - begun_s)
    while True:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            expire_s = float(int(time.time() + allowance_s))
            text = datetime.datetime.fromtimestamp(expire_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            lifetime = parse_lifetime(None, text.encode())

            def show(made: int) -> None:
                progress(f"expiring: {made:,} of {streams:,} made")

            asyncio.run(fill(folder, streams, CONTENT, lifetime, show))
            with serving(folder) as server:
                if time.time() + 2 * QUIET_S < expire_s:
                    yield folder, server, expire_s
                    return
        allowance_s *= 2  # the machine has become slower


def innocent_requests() -> Iterator[Request]:
    """What the client beside them does: it reads and appends by turns."""
    return cycle([("GET", f"{INNOCENT}?offset=now", b""), ("POST", INNOCENT, b"x" * 100)])


def probes(streams: int) -> Iterator[Request]:
    """Requests for streams that have expired."""
    while True:
        yield "HEAD", f"{PATH}/{random.randrange(streams)}", b""


def space_over_time(folder: Path, began_s: float, progress: Progress) -> list[tuple[float, int]]:
    """Measure the folder until it shrinks no more, or patience ends: seconds since `began_s`, bytes."""
    seen: list[tuple[float, int]] = []
    least, fell_s = 2**63, 0.0
    while True:
        begun_s = time.perf_counter()
        taken = disk_bytes(folder)
        now_s = time.perf_counter()
        seen.append((now_s - began_s, taken))
        progress(f"expiring: {taken / 1e6:,.0f} MB on the disk after {now_s - began_s:.0f} s")
        if taken < 0.99 * least:
            least, fell_s = taken, now_s
        has_settled = taken < 0.9 * seen[0][1] and now_s - fell_s > SETTLED_S
        if has_settled or now_s - began_s > PATIENCE_S:
            return seen
        time.sleep(max(1.0, 5 * (now_s - begun_s)))  # measuring is work, too: leave the machine to the server


def still_there(server: Server, streams: int) -> int:
    """Ask for every stream, many at a time on one connection, and count those that are not 404."""
    parts = urlsplit(server.url)
    found = 0
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=60) as opened:
        for first in range(0, streams, PIPELINED):
            numbers = range(first, min(streams, first + PIPELINED))
            opened.sendall(
                b"".join(
                    f"HEAD {PATH}/{n} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode() for n in numbers
                )
            )
            answers = b""
            while answers.count(b"\r\n\r\n") < len(numbers):
                answers += opened.recv(2**16)
            found += len(numbers) - answers.count(b"HTTP/1.1 404")
    return found


def innocent_figures(before: list[Timed], after: list[Timed]) -> list[Figure]:
    """What the innocent client has noticed."""
    columns = {BEFORE: before, AFTER: after}
    return [
        Figure("innocent client, requests", {column: len(timed) for column, timed in columns.items()}),
        Figure(
            "innocent client, p50 ms", {column: percentile_ms(timed, 50) for column, timed in columns.items()}
        ),
        Figure(
            "innocent client, p99 ms",
            {column: percentile_ms(timed, 99) for column, timed in columns.items()},
            {AFTER: 50.0},
        ),
        Figure(
            "innocent client, max ms",
            {column: percentile_ms(timed, 100) for column, timed in columns.items()},
        ),
    ]


def run(effort: Effort, progress: Progress) -> Findings:
    """Let them expire, and watch."""
    streams = effort.expiring_streams
    if not has_room(Path(tempfile.gettempdir()), streams):
        return Findings([], [], [f"left out: the disk of {tempfile.gettempdir()} has too little room."])
    with about_to_expire(streams, progress) as (folder, server, expire_s):
        with connection(server) as opened:
            request(opened, "PUT", INNOCENT)
        space_before = disk_bytes(folder)
        progress("expiring: waiting for the second")
        time.sleep(max(0.0, expire_s - QUIET_S - time.time()))
        with timing(server, innocent_requests(), PAUSE_S) as timed:
            time.sleep(max(0.0, expire_s - time.time()))
            began_s = time.perf_counter()
            with timing(server, probes(streams), PROBE_S) as probed:
                space = space_over_time(folder, began_s, progress)
        left = still_there(server, streams)
    wrong = [probe for probe in probed if probe.status != 404]
    least = min(taken for _, taken in space)
    given_back = space_before - least
    reclaimed_s = next(at_s for at_s, taken in space if taken <= least + 0.05 * given_back)
    # The innocent client is judged while the work is done, not over a long quiet time behind it.
    busy = [one for one in timed if began_s <= one.begun_s <= began_s + max(reclaimed_s, QUIET_S)]
    quiet = [one for one in timed if began_s - QUIET_S <= one.begun_s < began_s]
    answered_s = max((probe.begun_s - began_s for probe in wrong), default=0.0)
    figures = [
        *innocent_figures(quiet, busy),
        Figure("requests for expired streams", {AFTER: len(probed)}),
        Figure("of them not 404", {AFTER: len(wrong)}, {AFTER: 0}),
        Figure("until all were 404, s", {AFTER: answered_s}, {AFTER: 0}),
        Figure("not 404 at the end, of all", {AFTER: left}, {AFTER: 0}),
        Figure("disk, MB", {BEFORE: space_before / 1e6, AFTER: least / 1e6}),
        Figure("until their space was reclaimed, s", {AFTER: reclaimed_s}, {AFTER: 60.0}),
    ]
    remarks = (
        [] if given_back > streams * len(CONTENT) / 2 else ["Less than half of their content was given back."]
    )
    return Findings([BEFORE, AFTER], figures, remarks)


ALL = (Study("expiring", "streams of 1 KB that expire at the same second, and a client beside them", run),)
