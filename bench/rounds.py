"""Run one scenario on every contender, in alternating rounds, and compare neighbours in time."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from statistics import median

from tests.running import Server

OURS = "millstream"
REFERENCE = "reference"
ELECTRIC = "electric"
NGINX = "nginx"
BEFORE = "before"  # another checkout of this repository

Start = Callable[[], AbstractContextManager[Server]]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """How much of everything: the whole run, or a quick one."""

    rounds: int
    seconds: float
    readers: int
    catch_up_bytes: int
    idle_streams: int
    many_streams: int
    stream_counts: tuple[int, ...]
    expiring_streams: int


FULL = Effort(
    rounds=3,
    seconds=3,
    readers=1_000,
    catch_up_bytes=100_000_000,
    idle_streams=20_000,
    many_streams=100_000,
    stream_counts=(10, 1_000, 100_000, 1_000_000),
    expiring_streams=100_000,
)
QUICK = Effort(
    rounds=1,
    seconds=1,
    readers=1_000,
    catch_up_bytes=20_000_000,
    idle_streams=5_000,
    many_streams=5_000,
    stream_counts=(10, 1_000, 5_000),
    expiring_streams=5_000,
)


@dataclass(frozen=True)
class Sample:
    """One measurement: the scenario's own number, and what it cost."""

    value: float
    cpu_us: float | None = None  # of the server, per unit of work
    p50_ms: float | None = None
    p99_ms: float | None = None
    reader_cpu_share: float | None = None  # near 1 the readers, not the server, set the pace


@dataclass(frozen=True)
class Scenario:
    """One kind of work. `prepare` runs once on each server, `measure` once in each round."""

    name: str
    title: str
    unit: str
    measure: Callable[[Server, Effort], Sample]
    prepare: Callable[[Server, Effort], None]
    less_is_better: bool = False
    fresh_servers: bool = False  # for work that leaves a server changed
    durable: bool = True  # on the disk, synced before every answer, instead of in memory
    waits_for_disk: bool = False  # else the reference serves from memory, where it is faster by far
    only_ours: bool = False  # a promise about ourselves, not a comparison
    static_bytes: Callable[[Effort], int] | None = None  # nginx takes part, with a file of this size


@dataclass
class Result:
    """All samples of one scenario, by contender, in the order of the rounds."""

    scenario: Scenario
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def ratios(self, contender: str, peer: str = REFERENCE) -> list[float]:
        """For each round, how many times better `contender` was than a peer."""
        pairs = zip(self.samples[contender], self.samples.get(peer, []), strict=False)
        if self.scenario.less_is_better:
            return [theirs.value / own.value for own, theirs in pairs]
        return [own.value / theirs.value for own, theirs in pairs]

    def middle(self, contender: str, number: Callable[[Sample], float | None]) -> float | None:
        """The median of one number over the rounds."""
        known = [value for sample in self.samples[contender] if (value := number(sample)) is not None]
        return median(known) if known else None


def run(scenario: Scenario, contenders: dict[str, Start], effort: Effort, progress: Progress) -> Result:
    """Measure every contender once in each round, in an order that turns around each time."""
    result = Result(scenario, {name: [] for name in contenders})
    with ExitStack() as open_servers:
        kept: dict[str, Server] = {}

        def measure_on(name: str, server: Server, *, is_new: bool) -> None:
            if is_new and name != NGINX:
                scenario.prepare(server, effort)
            result.samples[name].append(scenario.measure(server, effort))

        def measure_once(name: str) -> None:
            if scenario.fresh_servers:
                with contenders[name]() as server:
                    measure_on(name, server, is_new=True)
                return
            is_new = name not in kept
            if is_new:
                kept[name] = open_servers.enter_context(contenders[name]())
            measure_on(name, kept[name], is_new=is_new)

        for number in range(effort.rounds):
            names = list(result.samples) if number % 2 == 0 else list(reversed(result.samples))
            for name in names:
                progress(f"{scenario.name}: round {number + 1} of {effort.rounds}, {name}")
                try:
                    measure_once(name)
                except Exception as error:
                    if name == OURS:
                        raise
                    del result.samples[name]  # a peer that cannot do it is left out of the row
                    print(f"{scenario.name}: without {name}: {type(error).__name__}: {error}", flush=True)
    return result
