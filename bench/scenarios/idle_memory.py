"""What waiting costs: resident memory for each idle SSE reader and each idle stream."""

from bench.crowd import crowd
from bench.memory import allowed_connections, resident_bytes
from bench.rounds import Effort, Sample, Scenario
from bench.scenarios.streams import PATH, connection, create, request
from tests.running import Server

WARM_UP_READERS = 50
WARM_UP_STREAMS = 500
CROWD_READERS = 10_000
SPARE_FILES = 500
KIB = 1024


def create_streams(server: Server, first: int, count: int) -> None:
    with connection(server) as opened:
        for number in range(first, first + count):
            request(opened, "PUT", f"/idle/{number}")


def warm_up_readers(server: Server, effort: Effort) -> None:
    """Code and pools that the first readers bring in are not the price of a reader."""
    create(server)
    with crowd(server.url + PATH, WARM_UP_READERS):
        pass


def measure_readers(server: Server, effort: Effort) -> Sample:
    before = resident_bytes(server.pid)
    with crowd(server.url + PATH, effort.readers):
        grown = resident_bytes(server.pid) - before
    return Sample(grown / effort.readers / KIB)


def measure_crowd(server: Server, effort: Effort) -> Sample:
    """As many readers as the limit on open files lets a process have, up to 10,000; then one message."""
    readers = min(CROWD_READERS, allowed_connections() - SPARE_FILES)
    before = resident_bytes(server.pid)
    with crowd(server.url + PATH, readers) as waiting:
        grown = resident_bytes(server.pid) - before
        report = waiting.obey("paced 1 1")
    if report.delivered != readers:
        raise RuntimeError(f"{report.delivered} of {readers} readers got the message")
    return Sample(grown / readers / KIB, p50_ms=report.p50_ms, p99_ms=report.p99_ms)


def warm_up_streams(server: Server, effort: Effort) -> None:
    create_streams(server, 0, WARM_UP_STREAMS)


def measure_streams(server: Server, effort: Effort) -> Sample:
    before = resident_bytes(server.pid)
    create_streams(server, WARM_UP_STREAMS, effort.idle_streams)
    grown = resident_bytes(server.pid) - before
    return Sample(grown / effort.idle_streams / KIB)


ALL = (
    Scenario(
        name="idle-reader",
        title="memory, idle SSE reader",
        unit="KiB",
        measure=measure_readers,
        prepare=warm_up_readers,
        less_is_better=True,
        fresh_servers=True,
    ),
    Scenario(
        name="idle-crowd",
        title="memory, each of 10,000 idle SSE readers",
        unit="KiB",
        measure=measure_crowd,
        prepare=warm_up_readers,
        less_is_better=True,
        fresh_servers=True,
        only_ours=True,
    ),
    Scenario(
        name="idle-stream",
        title="memory, idle stream",
        unit="KiB",
        measure=measure_streams,
        prepare=warm_up_streams,
        less_is_better=True,
        fresh_servers=True,
        durable=False,
    ),
)
