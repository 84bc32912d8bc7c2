"""What an append costs among many streams: each goes to a random one, so most streams are asleep.

Each size has a folder and a server of its own, and the sizes alternate within one run. The steps:

        fill      streams of 1 KB, by the engine itself; what they take on the disk
        open      after a stop
        append    64 connections, in rounds that are long enough for the checkpoints that they cause; once
                  more beside a client that watches checkpoints
        list      pages of 1,000 names
        stop      what the folder takes now, how long it takes to open it
        kill      under load, and open it
        create    64 connections, in rounds; last, because it adds streams
"""

import asyncio
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL
from statistics import median

from bench.cpu import Cpu
from bench.memory import resident_bytes
from bench.rounds import Effort, Progress
from bench.scattered import LEAST_BYTES, MEAN_BYTES, MOST_BYTES, Scattered, scatter
from bench.scenarios.checkpoints import watching
from bench.scenarios.folders import (
    MEMORY_BYTES,
    disk_bytes,
    fill,
    has_room,
    log_bytes,
    memory_options,
    serving,
)
from bench.scenarios.streams import PATH, connection, request
from bench.scenarios.timing import Request, percentile_ms, timing
from bench.studies import Figure, Findings, Study

CONTENT = random.Random(19).randbytes(512).hex().encode()
PAGES = 20
PAGE = 1_000
NEW = 10_000_000  # new streams of each round are counted from a multiple of it
WARM_UP_ROUNDS = 6
ROUND = 8  # times as long as other measurements: one checkpoint of 100,000 streams is due every 20 s or so
MIB = 2**20
SOME = 1_000
MANY = 100_000  # up to here streams fit into the memory budget


class Site:
    """One size: its folder, its server, and all samples of each figure."""

    def __init__(self, streams: int, folder: Path) -> None:
        self.streams = streams
        self.column = f"{streams:,}"
        self.folder = folder
        self.content_bytes = streams * len(CONTENT)
        self.samples: defaultdict[str, list[float]] = defaultdict(list)
        self._running = ExitStack()

    def note(self, figure: str, value: float | None) -> None:
        """Add a sample, if it could be measured here."""
        if value is not None:
            self.samples[figure].append(value)

    def start(self) -> float:
        """Start the server, and give the seconds until it has answered about a stream."""
        begun_s = time.perf_counter()
        self.server = self._running.enter_context(serving(self.folder))
        with connection(self.server) as opened:
            request(opened, "GET", f"{PATH}/{self.streams // 2}?offset=now")
        return time.perf_counter() - begun_s

    def stop(self) -> None:
        """Stop the server; a second call changes nothing."""
        self._running.close()

    def kill(self) -> None:
        """End the server without a chance to save anything."""
        self.server.signal(SIGKILL)
        self.stop()

    def note_disk(self, when: str) -> None:
        """Measure the folder; the server is stopped."""
        taken = disk_bytes(self.folder)
        self.note(f"disk {when}, MB", taken / 1e6)
        if self.streams >= SOME:  # otherwise the files that every folder has count for more
            beyond = taken - log_bytes(self.folder) - 1.5 * self.content_bytes
            self.note(f"disk {when}, B a stream beyond 1.5x", beyond / self.streams)

    def append(self, seconds: float, *, is_warm_up: bool = False) -> int:
        """Append to random streams, and note what it costs; give how many were stored."""
        cpu, loop_cpu = Cpu(self.server.pid), Cpu(self.server.pid, main_thread=True)
        report = scatter(Scattered(self.server.url + PATH, "POST", self.streams), seconds)
        stored = report.requests - report.errors
        self.content_bytes += int(stored * MEAN_BYTES)
        if is_warm_up:
            return stored
        self.note("appends/s", stored / report.seconds)
        self.note("append, CPU us", cpu.us_per(stored))
        self.note("of it the event loop", loop_cpu.us_per(stored))
        self.note("append, p50 ms", report.p50_ms)
        self.note("append, p99 ms", report.p99_ms)
        self.note("refused", report.errors)
        return stored

    def create(self, seconds: float, round_number: int) -> None:
        """Create new streams, each with a message like an append's."""
        cpu = Cpu(self.server.pid)
        load = Scattered(self.server.url + PATH, "PUT", self.streams, NEW * (round_number + 1))
        report = scatter(load, seconds)
        created = report.requests - report.errors
        self.note("creates/s", created / report.seconds)
        self.note("create, CPU us", cpu.us_per(created))
        self.note("creates refused", report.errors)

    def watch_checkpoints(self, seconds: float) -> None:
        """Append once more, beside a client that notes its latencies and when checkpoints run."""

        def appends() -> Iterator[Request]:
            while True:
                path = f"{PATH}/{random.randrange(self.streams)}"
                yield "POST", path, b"x" * random.randint(LEAST_BYTES, MOST_BYTES)

        with watching(self.server) as checkpoints, timing(self.server, appends()) as timed:
            self._free_something()
            begun_s = time.perf_counter()
            report = scatter(Scattered(self.server.url + PATH, "POST", self.streams), seconds)
            ended_s = time.perf_counter()
            self._free_something()
            checkpoints.wait_for_next()
        self.content_bytes += int((report.requests - report.errors + len(timed)) * MEAN_BYTES)
        under_load = [one for one in timed if one.begun_s < ended_s]
        during = checkpoints.during(under_load)
        part = checkpoints.seconds(begun_s, ended_s) / (ended_s - begun_s)
        self.note("time in checkpoints, %", 100 * part)
        if during:
            p99_ms, p50_ms = percentile_ms(during, 99), percentile_ms(under_load, 50)
            self.note("p99 in a checkpoint, ms", p99_ms)
            self.note("p99 in a checkpoint, x median", p99_ms / p50_ms)

    def _free_something(self) -> None:
        """Make a checkpoint due within seconds, whatever else has changed."""
        with connection(self.server) as opened:
            request(opened, "PUT", f"{PATH}/gone")
            request(opened, "DELETE", f"{PATH}/gone")

    def list_pages(self) -> None:
        """Get pages of names that begin anywhere."""
        with connection(self.server) as opened:
            for _ in range(PAGES):
                begun_s = time.perf_counter()
                cursor = f"{PATH}/{random.randrange(self.streams)}"
                request(opened, "GET", f"/__ds/streams?limit={PAGE}&cursor={cursor}")
                self.note("page of 1,000 names, ms", (time.perf_counter() - begun_s) * 1e3)


def filled_sites(effort: Effort, progress: Progress, stack: ExitStack, remarks: list[str]) -> list[Site]:
    """Make the folders, where the disk has room for them."""
    sites = []
    for streams in effort.stream_counts:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not has_room(folder, streams):
            remarks.append(
                f"{streams:,} streams are left out: the disk of {folder.parent} has too little room."
            )
            continue

        def show(made: int, streams: int = streams) -> None:
            progress(f"streams: {made:,} of {streams:,} made")

        begun_s = time.perf_counter()
        asyncio.run(fill(folder, streams, CONTENT, progress=show))
        site = Site(streams, folder)
        site.note("made in process, streams/s", streams / (time.perf_counter() - begun_s))
        site.note_disk("at first")
        sites.append(site)
    return sites


def warm_up(site: Site, seconds: float) -> None:
    """Append until streams that may stay in memory are there."""
    stored = 0
    for _ in range(WARM_UP_ROUNDS):
        stored += site.append(seconds, is_warm_up=True)
        if stored > 2 * site.streams:
            return


def measure(sites: list[Site], effort: Effort, progress: Progress) -> None:
    """Take all steps; rounds alternate between the sites, in an order that turns around each time."""

    def each(step: str, work: Callable[[Site], None]) -> None:
        for site in sites:
            progress(f"streams: {step}, {site.column}")
            work(site)

    def in_rounds(step: str, work: Callable[[Site, int], None]) -> None:
        for number in range(effort.rounds):
            for site in sites if number % 2 == 0 else reversed(sites):
                progress(f"streams: {step}, round {number + 1} of {effort.rounds}, {site.column}")
                work(site, number)

    def append(site: Site, _: int) -> None:
        site.append(effort.seconds, is_warm_up=True)  # others had their turn: let streams come back to memory
        site.append(ROUND * effort.seconds)

    def reopen(site: Site) -> None:
        site.note("memory, MiB", resident_bytes(site.server.pid) / MIB)
        site.stop()
        site.note_disk("after appends")
        site.note("open after a stop, s", site.start())

    def kill(site: Site) -> None:
        site.append(effort.seconds, is_warm_up=True)
        site.kill()
        site.note("open after a kill, s", site.start())

    each("opening", lambda site: site.note("open after a stop, s", site.start()))
    each("warming up", lambda site: warm_up(site, effort.seconds))
    in_rounds("appends", append)
    each("appends and checkpoints", lambda site: site.watch_checkpoints(3 * effort.seconds))
    each("listing", lambda site: site.list_pages())
    each("stopping", reopen)
    each("killing", kill)
    in_rounds("creates", lambda site, number: site.create(effort.seconds, number))
    each("stopping", lambda site: site.stop())


def medians(sites: list[Site], title: str) -> dict[str, float]:
    """One figure of all sizes."""
    return {site.column: median(site.samples[title]) for site in sites if site.samples[title]}


def append_ratios(sites: list[Site]) -> dict[str, float]:
    """What an append costs, as a multiple of its cost among the fewest streams in the same round."""
    few, costs = sites[0].samples, "append, CPU us"
    return {
        site.column: median(own / least for own, least in zip(site.samples[costs], few[costs], strict=True))
        for site in sites
        if site.samples[costs]
    }


def create_ratios(sites: list[Site]) -> dict[str, float]:
    """What a create costs, as a multiple of an append."""
    appends, creates = medians(sites, "append, CPU us"), medians(sites, "create, CPU us")
    return {column: cost / appends[column] for column, cost in creates.items()}


def figures(sites: list[Site]) -> list[Figure]:
    """The medians and the ratios, in the order of the table, with what must hold."""
    bounds = {site.column: 1.5 if site.streams <= MANY else 4.0 for site in sites[1:]}
    derived = {
        "append, CPU, x the first": Figure(
            f"append, CPU, x that with {sites[0].column}", append_ratios(sites), bounds
        ),
        "create, CPU, x an append": Figure("create, CPU, x an append", create_ratios(sites)),
    }
    most = {**TITLES, "memory, MiB": MEMORY_BYTES / MIB + 128 if memory_options() else None}
    made = [derived.get(title) or Figure(title, medians(sites, title)) for title in TITLES]
    for figure, bound in zip(made, most.values(), strict=True):
        if bound is not None:
            figure.bounds = dict.fromkeys(figure.values, bound)
    return [figure for figure in made if figure.values]


TITLES: dict[str, float | None] = {
    "appends/s": None,
    "append, p50 ms": None,
    "append, p99 ms": None,
    "refused": None,
    "append, CPU us": None,
    "of it the event loop": None,
    "append, CPU, x the first": None,
    "time in checkpoints, %": None,
    "p99 in a checkpoint, ms": None,
    "p99 in a checkpoint, x median": 10.0,
    "creates/s": None,
    "creates refused": None,
    "create, CPU us": None,
    "create, CPU, x an append": 2.0,
    "made in process, streams/s": None,
    "disk at first, MB": None,
    "disk at first, B a stream beyond 1.5x": 300.0,
    "disk after appends, MB": None,
    "disk after appends, B a stream beyond 1.5x": 300.0,
    "memory, MiB": None,
    "open after a stop, s": 3.0,
    "open after a kill, s": 10.0,
    "page of 1,000 names, ms": 20.0,
}
"""Every figure, and the most that it may be."""


def run(effort: Effort, progress: Progress) -> Findings:
    """Measure all sizes."""
    remarks: list[str] = []
    with ExitStack() as stack:
        sites = filled_sites(effort, progress, stack, remarks)
        for site in sites:
            stack.callback(site.stop)
        measure(sites, effort, progress)
    return Findings([site.column for site in sites], figures(sites) if sites else [], remarks)


ALL = (Study("streams", "an append to a random one of many streams of 1 KB, 64 connections, synced", run),)
