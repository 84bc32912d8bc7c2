"""Prepared ranges: what is read from files is what was written, whatever happens to the files."""

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow
import pytest

from millstream.spark.json.fields import Fields
from millstream.spark.options import OptionError
from millstream.spark.source.offsets import Position
from millstream.spark.source.planning import Range
from millstream.spark.source.prepared import LEAST_BYTES, PreparedRanges, can_be_kept, key_of

SCHEMA = pyarrow.schema([("n", pyarrow.int64()), ("text", pyarrow.string())])
ROWS = 100
RANGE = Range(
    "log",
    Position("0000000000000000_0000000000000000", incarnation="a"),
    Position(f"0000000000000000_{LEAST_BYTES:016d}", incarnation="a"),
)


def batches(first: int = 0, count: int = 3) -> list[pyarrow.RecordBatch]:
    return [
        pyarrow.record_batch(
            [list(range(at, at + ROWS)), [None if n % 7 == 0 else str(n) for n in range(ROWS)]], schema=SCHEMA
        )
        for at in range(first, first + count)
    ]


class Reading:
    """Counts how often a range is read from the server."""

    def __init__(self, found: list[pyarrow.RecordBatch]) -> None:
        self.found = found
        self.times = 0

    def __call__(self) -> Iterator[pyarrow.RecordBatch]:
        self.times += 1
        yield from self.found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "kept"


@pytest.fixture
def kept(folder: Path) -> PreparedRanges:
    return PreparedRanges(str(folder), 2**20)


def test_a_range_is_read_once(kept: PreparedRanges, folder: Path) -> None:
    reading = Reading(batches())
    for _ in range(3):
        assert list(kept.batches("k", reading)) == reading.found
    assert reading.times == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]


def test_an_empty_range_is_read_each_time(kept: PreparedRanges, folder: Path) -> None:
    reading = Reading([])
    assert [list(kept.batches("k", reading)) for _ in range(2)] == [[], []]
    assert (reading.times, list(folder.iterdir())) == (2, [])


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_damaged_is_noticed_and_made_again(kept: PreparedRanges, folder: Path, seed: int) -> None:
    reading, chance = Reading(batches()), random.Random(seed)
    list(kept.batches("k", reading))
    [path] = folder.iterdir()
    content = bytearray(path.read_bytes())
    if seed % 2:
        del content[chance.randrange(len(content)) :]
    else:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    for _ in range(2):
        assert list(kept.batches("k", reading)) == reading.found
    assert reading.times == 2


def test_what_is_not_read_to_its_end_is_not_kept(kept: PreparedRanges, folder: Path) -> None:
    reading = Reading(batches())
    with contextlib.closing(kept.batches("k", reading)) as some:
        assert next(some) == reading.found[0]

    def failing() -> Iterator[pyarrow.RecordBatch]:
        yield reading.found[0]
        raise ValueError

    with pytest.raises(ValueError):
        list(kept.batches("k", failing))
    assert list(folder.iterdir()) == []


def test_a_file_that_is_removed_while_it_is_read_is_read_to_its_end(
    kept: PreparedRanges, folder: Path
) -> None:
    reading = Reading(batches())
    list(kept.batches("k", reading))
    some = kept.batches("k", reading)
    found = [next(some)]
    for path in folder.iterdir():
        path.unlink()
    assert [*found, *some] == reading.found


def test_two_at_once_both_have_everything(kept: PreparedRanges, folder: Path) -> None:
    reading = Reading(batches(count=50))
    found: list[list[pyarrow.RecordBatch]] = []
    threads = [
        threading.Thread(target=lambda: found.append(list(kept.batches("k", reading)))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one == reading.found for one in found)
    assert len(found) == 8
    assert list(kept.batches("k", Reading([]))) == reading.found
    assert [path.suffix for path in folder.iterdir()] == [".arrow"]


def test_what_was_not_used_for_the_longest_time_goes(folder: Path) -> None:
    size = sum(batch.nbytes for batch in batches())
    kept = PreparedRanges(str(folder), 5 * size)
    for number in range(3):
        list(kept.batches(f"k{number}", Reading(batches(number))))
        os.utime(folder / f"k{number}.arrow", (number, number))
    assert list(kept.batches("k0", Reading([]))) == batches(0)  # used, so it is younger than the others
    for number in range(3, 5):
        list(kept.batches(f"k{number}", Reading(batches(number))))
    names = {path.name for path in folder.iterdir()}
    assert "k0.arrow" in names
    assert "k1.arrow" not in names
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 5 * size


def test_a_range_that_is_larger_than_everything_is_not_kept(folder: Path) -> None:
    reading = Reading(batches())
    kept = PreparedRanges(str(folder), batches()[0].nbytes)
    assert list(kept.batches("k", reading)) == reading.found
    assert list(folder.iterdir()) == []


def test_what_a_killed_task_has_left_goes_after_an_hour(kept: PreparedRanges, folder: Path) -> None:
    for name, age in (("old.part", 4000), ("new.part", 0)):
        (folder / name).write_bytes(b"x")
        then = (folder / name).stat().st_mtime - age
        os.utime(folder / name, (then, then))
    list(kept.batches("k", Reading(batches())))
    assert {path.name for path in folder.iterdir()} == {"new.part", "k.arrow"}


def test_a_directory_that_vanishes_costs_nothing_but_time(kept: PreparedRanges, folder: Path) -> None:
    folder.rmdir()
    reading = Reading(batches())
    assert [list(kept.batches("k", reading)) for _ in range(2)] == [reading.found] * 2


def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(OptionError, match=r"cacheDirectory: .*other users"):
        PreparedRanges(str(tmp_path), 100)


def test_a_key_names_all_that_the_rows_depend_on() -> None:
    fields = Fields(SCHEMA, None, fails=False)
    later = msgspec.structs.replace(RANGE.end, offset=f"0000000000000000_{LEAST_BYTES + 9:016d}")
    keys = [
        key_of("http://h", RANGE, SCHEMA, fields),
        key_of("http://other", RANGE, SCHEMA, fields),
        key_of("http://h", RANGE, SCHEMA.append(pyarrow.field("x", pyarrow.int8())), fields),
        key_of("http://h", RANGE, SCHEMA, None),
        key_of("http://h", RANGE, SCHEMA, msgspec.structs.replace(fields, drops=True, corrupt="bad")),
        key_of("http://h", msgspec.structs.replace(RANGE, stream="other"), SCHEMA, fields),
        key_of("http://h", msgspec.structs.replace(RANGE, end=later), SCHEMA, fields),
        key_of(
            "http://h",
            msgspec.structs.replace(RANGE, start=msgspec.structs.replace(RANGE.start, incarnation="b")),
            SCHEMA,
            fields,
        ),
    ]
    assert len(set(keys)) == len(keys)
    again = Fields(pyarrow.schema(list(SCHEMA)), None, fails=False)
    assert key_of("http://h", RANGE, pyarrow.schema(list(SCHEMA)), again) == keys[0]


def test_small_ranges_and_those_of_unknown_streams_are_not_kept() -> None:
    assert can_be_kept(RANGE)
    small = Position(f"0000000000000000_{LEAST_BYTES - 1:016d}")
    assert not can_be_kept(msgspec.structs.replace(RANGE, end=small))
    assert not can_be_kept(msgspec.structs.replace(RANGE, start=Position(RANGE.start.offset)))
    assert not can_be_kept(
        Range("log", Position("1f_3", total=3, incarnation="a"), Position("1f_9", total=9))
    )
