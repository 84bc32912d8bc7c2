"""How many bytes the arrival times of appends take, in files and in packs, by how far appends are apart (X7).

The table is that of `docs/design/packs.md`.
"""

import math
import random
from array import array
from collections.abc import Callable
from itertools import accumulate, pairwise

import pytest

from millstream.store.log.crc import crc32c, extend
from millstream.store.log.files import deltas
from millstream.store.log.files.index import read_times, write_pages
from millstream.store.log.files.layout import PAGE_ENTRIES, Layout
from millstream.store.log.files.packs import Appends, decode_slot
from millstream.store.log.files.places import Filed
from millstream.store.log.files.sums import PLACE

CREATED_MS = 1_700_000_000_000
PAGES = 20
APART_MS = (20, 1_000, 16_000, 60_000, 600_000, 3_600_000)

Distances = Callable[[random.Random, int], float]
SORTS: dict[str, Distances] = {
    "at random": lambda rng, apart_ms: rng.expovariate(1 / apart_ms),
    "up to 5 % more or less": lambda rng, apart_ms: apart_ms * rng.uniform(0.95, 1.05),
    "up to 20 ms more or less": lambda rng, apart_ms: apart_ms + rng.uniform(-20, 20),
}
AT_MOST = {
    "at random": (1.1, 1.5, 2.0, 2.25, 2.7, 3.0),
    "up to 5 % more or less": (1.1, 1.0, 1.45, 1.7, 2.15, 2.45),
    "up to 20 ms more or less": (1.1, 0.8, 0.8, 0.8, 0.8, 0.8),
}
CASES = [
    (sort, apart_ms, most) for sort in SORTS for apart_ms, most in zip(APART_MS, AT_MOST[sort], strict=True)
]


BURSTS = [  # appends in a burst, milliseconds between them, milliseconds between bursts, bytes
    (200, 30, 600_000, 1.1),
    (50, 200, 86_400_000, 1.65),
    (20, 1_000, 3_600_000, 2.0),
]


def _times(sort: str, apart_ms: int, count: int) -> "array[int]":
    rng = random.Random(f"{sort} {apart_ms}")
    distances = [round(SORTS[sort](rng, apart_ms)) for _ in range(count)]
    return array("Q", list(accumulate(distances, initial=CREATED_MS))[1:])


@pytest.mark.parametrize(("sort", "apart_ms", "most"), CASES)
def test_times_in_files_take_few_bytes(sort: str, apart_ms: int, most: float) -> None:
    """X7: all that a page of times has, its first time and its checksum included."""
    assert _bytes_each(_times(sort, apart_ms, PAGES * PAGE_ENTRIES)) <= most


@pytest.mark.parametrize(("count", "apart_ms", "pause_ms", "most"), BURSTS)
def test_times_of_bursts_take_few_bytes(count: int, apart_ms: int, pause_ms: int, most: float) -> None:
    """X7: as tokens and events come, at random within a burst and between bursts."""
    rng = random.Random(count)
    means = ([pause_ms] + [apart_ms] * (count - 1)) * (PAGES * PAGE_ENTRIES // count + 1)
    distances = [round(rng.expovariate(1 / mean)) for mean in means[: PAGES * PAGE_ENTRIES]]
    assert _bytes_each(array("Q", list(accumulate(distances, initial=CREATED_MS))[1:])) <= most


def _bytes_each(times: "array[int]") -> float:
    """Write pages of times as checkpoints do, read each again, and give the bytes an append takes."""
    ends = array("Q", range(100, 100 * len(times) + 1, 100))
    place, size = Filed(Layout(2**26)), 0
    step = 100  # for each checkpoint
    for first in range(0, len(times), step):
        chosen = slice(first, first + step)
        for part, after in write_pages(1, first, 2**20, place, ends[chosen], times[chosen]):
            assert part.times_position == place.times_end
            if part.times:
                page = first // PAGE_ENTRIES
                found = read_times(1, page, part.times, None)
                assert found is not None
                numbers = times[page * PAGE_ENTRIES : (page + 1) * PAGE_ENTRIES]
                assert found.decode(PAGE_ENTRIES) == numbers
                assert len(part.times) / PAGE_ENTRIES <= _bound(numbers)
            size += len(part.times)
            place = after
    assert place.times_end == size
    assert place.recent == b""
    return size / len(times)


def _bound(times: "array[int]") -> float:
    distances = [after - before for before, after in pairwise(times)]
    excess_ms = sum(distances) / len(distances) - min(distances)
    return max(1.3, 0.07 + (2 + math.log2(max(1, excess_ms))) / 8)


@pytest.mark.parametrize(("sort", "apart_ms", "most"), CASES)
def test_times_in_packs_take_few_bytes(sort: str, apart_ms: int, most: float) -> None:
    """X7: what a slot with many appends is longer for its times; a stream in packs has no more than some."""
    count = 100
    times = _times(sort, apart_ms, count)
    ends = array("Q", range(100, 100 * count + 1, 100))
    slot = Appends(1, 0, 0, ends, times, bytes(100 * count))
    encoded = slot.encode(CREATED_MS)
    assert decode_slot(encoded, CREATED_MS) == slot
    timeless = Appends(1, 0, 0, ends, array("Q", [CREATED_MS] * count), bytes(100 * count))
    size = len(encoded) - len(timeless.encode(CREATED_MS)) + count
    assert size / count <= most + 0.1  # the first time, and the width, for fewer appends


def test_the_last_times_are_in_the_catalog_until_they_fill_a_page() -> None:
    times = _times("at random", 1_000, PAGE_ENTRIES + 10)
    ends = array("Q", range(1, len(times) + 1))
    parts = list(write_pages(1, 0, 2**20, Filed(Layout(2**26)), ends, times))
    assert [bool(part.times) for part, _ in parts] == [True, False]
    assert parts[-1][1].recent


def test_a_page_that_format_4_began_goes_on_in_its_file() -> None:
    times = _times("at random", 60_000, 2 * PAGE_ENTRIES)
    ends = array("Q", range(1, len(times) + 1))
    began = times[0].to_bytes(8, "little") + deltas.encode(times[:10], times[0])
    sum = extend(crc32c(PLACE.pack(3, 1, 0)), began)
    place = Filed(Layout(2**26), times_sum=sum, times_end=len(began), last_ms=times[9])
    (rest, place), (whole, place) = write_pages(1, 10, 2**20, place, ends[10:], times[10:])
    former = read_times(1, 0, began + rest.times, None)
    assert former is not None
    assert former.decode(PAGE_ENTRIES) == times[:PAGE_ENTRIES]
    assert whole.times_position == len(began + rest.times)
    found = read_times(1, 1, whole.times, None)
    assert found is not None
    assert found.decode(PAGE_ENTRIES) == times[PAGE_ENTRIES:]
    assert len(whole.times) < len(began + rest.times)
