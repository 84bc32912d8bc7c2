"""How long a server takes to open a folder of many streams: from its start to its first answer.

Once after it was stopped, when the catalog has everything; once after it was killed under load, when the
log has to be read since the last checkpoint, too.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL

from bench.load import Load, apply
from bench.rounds import Effort, Sample, Scenario
from bench.scenarios.folders import fill, serving
from bench.scenarios.streams import PATH, connection, request
from tests.running import Server

MESSAGE = b"x" * 100


@contextmanager
def filled(effort: Effort) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(fill(Path(name), effort.many_streams, MESSAGE))
        yield Path(name)


def opening_s(folder: Path, stream: int) -> float:
    """The time from a server's start to its first answer, which is about one of the streams."""
    begun_s = time.perf_counter()
    with serving(folder) as server, connection(server) as opened:
        request(opened, "GET", f"{PATH}/{stream}?offset=-1")
        return time.perf_counter() - begun_s


def measure_stopped(_server: Server, effort: Effort) -> Sample:
    with filled(effort) as folder:
        return Sample(opening_s(folder, effort.many_streams // 2))


def measure_killed(_server: Server, effort: Effort) -> Sample:
    with filled(effort) as folder:
        with serving(folder) as server:
            apply(Load(server.url + PATH, "POST", 64, 50, 150, effort.many_streams), effort.seconds)
            server.signal(SIGKILL)
        return Sample(opening_s(folder, effort.many_streams // 2))


def nothing(_server: Server, _effort: Effort) -> None:
    """These scenarios have folders of their own."""


ALL = tuple(
    Scenario(
        name=name,
        title=title,
        unit="s",
        measure=measure,
        prepare=nothing,
        less_is_better=True,
        fresh_servers=True,
        only_ours=True,
        durable=False,  # its own servers are
    )
    for name, title, measure in (
        ("open-stopped", "opening many streams, after a stop", measure_stopped),
        ("open-killed", "opening many streams, after a kill", measure_killed),
    )
)
