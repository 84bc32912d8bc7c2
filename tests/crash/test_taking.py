"""Snapshots in steps: a checkpoint is of the moment when it began, whatever changes while it is taken."""

from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from crash.folders import NOW_MS, OCTETS, Opened, opened
from millstream.protocol.expiry import Lifetime
from millstream.protocol.producers import Stamp
from millstream.protocol.requests import AppendRequest, CreateRequest
from millstream.store.log.catalog.database import Catalog, Row
from millstream.store.log.saving.taking import Taking

NAMES = [f"/{number}" for number in range(6)]


class Turns:
    """Turns of the event loop that the test decides on."""

    def __init__(self, data: Opened) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._runner = data.runner
        data.engine.runtime.in_turns = self._waiting.append
        data.engine.runtime.items_per_turn = 1

    def run(self) -> None:
        """Run one."""

        async def turn() -> None:
            self._waiting.popleft()()

        self._runner.run(turn())

    @property
    def are_left(self) -> bool:
        return bool(self._waiting)


def begun(data: Opened) -> Turns:
    turns = Turns(data)

    async def begin() -> None:
        data.engine.checkpoint()

    data.runner.run(begin())
    assert turns.are_left
    return turns


def finish(data: Opened, turns: Turns) -> None:
    while data.engine.checkpoints.under_way:
        if turns.are_left:
            turns.run()
        else:
            data.until(lambda: turns.are_left or not data.engine.checkpoints.under_way)


CHANGES: dict[str, Callable[[Opened, str], object]] = {
    "append": lambda data, name: data.append(name, b"+"),
    "append with a producer": lambda data, name: data.append(name, b"+", Stamp(b"p", 0, 1)),
    "close": lambda data, name: data.append(name, b"", closes=True),
    "delete": lambda data, name: data.delete(name),
    "fork": lambda data, name: data.create(f"{name}/fork", forked_from=name),
    "stage": lambda data, name: data.stage(name, "y", b"yy"),
    "commit": lambda data, name: data.commit(name, "x"),
    "drop": lambda data, name: data.drop_part(name, "x"),
    "delete and create": lambda data, name: (data.delete(name), data.create(name, body=b"new")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_checkpoint_is_of_one_moment(tmp_path: Path, change: Callable[[Opened, str], object]) -> None:
    with opened(tmp_path) as data:
        for name in NAMES:
            data.create(name, lifetime=Lifetime(ttl_s=3_600))
            data.append(name, b"0", Stamp(b"p", 0, 0))
            data.stage(name, "x", b"xx")
        before = data.state()
        turns = begun(data)
        for name in NAMES:  # some of them have their snapshots
            change(data, name)
            if turns.are_left:
                turns.run()
        after = data.state()
        lsn = data.engine.journal.lsn
        finish(data, turns)
        assert data.state() == after
        data.abandon()
    with opened(tmp_path) as data:  # the checkpoint, and the records since
        assert data.engine.journal.lsn == lsn
        assert data.state() == after
        data.abandon()
    # Without those records, the folder is as the checkpoint has it.
    rows = {name: row.stream() for name in before if (row := _row(tmp_path, name)) is not None}
    assert rows.keys() == before.keys()
    for name, stream in rows.items():
        _, extent, closed, _, _, forks, parts = before[name]  # type: ignore[misc]
        assert (stream.start, stream.tail) == extent
        assert (stream.closed, stream.fork_count) == (closed, forks)
        assert stream.staged is not None
        assert list(stream.staged.parts) == list(parts)


def test_a_close_finishes_a_checkpoint_that_was_begun(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        for number in range(500):
            data.store.create(f"/{number}", CreateRequest(content_type=OCTETS), NOW_MS)

        async def begin() -> None:
            data.engine.checkpoint()

        data.runner.run(begin())
        data.store.append("/7", AppendRequest(b"x", OCTETS, False, None, None), NOW_MS)
    with opened(tmp_path) as data:
        state = data.state()
        assert len(state) == 500
        assert state["/7"][0] == b"x"  # type: ignore[index]


def _row(folder: Path, name: str) -> Row | None:
    catalog = Catalog(folder / "catalog.db")
    try:
        return catalog.by_name(name)
    finally:
        catalog.close()


def test_snapshots_come_by_id_whatever_changes_first(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        for name in NAMES:
            data.create(name)
        data.checkpoint()
        for name in reversed(NAMES):
            data.append(name, b"+")
        taking = Taking(data.engine.streams, data.engine.journal.lsn)
        steps = taking.steps()
        for _ in range(3):
            next(steps)
        for name in (NAMES[4], NAMES[0], NAMES[5]):
            data.append(name, b"+")
        ids = [one.stream.id for one in taking.complete().snapshots]
        assert ids == sorted(ids)
        assert len(ids) == len(NAMES)
