"""A catalog with two of its pages swapped, whichever: the folder is refused, or read and not changed.

SQLite may then find rows of one table in another one, with values that no column of ours can have.
"""

import itertools
import shutil
from pathlib import Path

from crash.folders import opened
from millstream.store.base import StoreError

PAGE_BYTES = 4096


def swap(path: Path, one: int, other: int) -> None:
    data = bytearray(path.read_bytes())
    first, second = (slice(number * PAGE_BYTES, (number + 1) * PAGE_BYTES) for number in (one, other))
    data[first], data[second] = data[second], data[first]
    path.write_bytes(data)


def test_whichever_pages_are_swapped_a_start_ends_in_words(tmp_path: Path) -> None:
    with opened(tmp_path / "whole") as data:
        for number in range(40):
            data.create(f"/{number}", body=b"x" * 100)
        data.stage("/1", "part", b"y")
    catalog = (tmp_path / "whole" / "catalog.db").read_bytes()
    pages = [catalog[start : start + PAGE_BYTES] for start in range(0, len(catalog), PAGE_BYTES)]
    refused = 0
    for pair in itertools.combinations(range(len(pages)), 2):
        folder = tmp_path / "-".join(map(str, pair))
        shutil.copytree(tmp_path / "whole", folder)
        swap(folder / "catalog.db", *pair)
        try:
            with opened(folder) as data:
                assert data.store.failure is not None or pages[pair[0]] == pages[pair[1]]
                data.until(lambda data=data: not data.engine.runtime.jobs)
        except StoreError as error:
            refused += 1
            assert "catalog.db" in str(error)
        shutil.rmtree(folder)
    assert 0 < refused < len(pages) * (len(pages) - 1) // 2
