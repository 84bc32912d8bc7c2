"""Checkpoints that cannot begin, or fail: changes are refused before memory fills, and removals are not."""

import asyncio
import errno
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from crash.folders import NOW_MS, Opened, opened
from millstream.protocol.lifecycle import Delete
from millstream.protocol.requests import ReadRequest
from millstream.protocol.streams import Append, Backlogged
from millstream.store.log.disk import SyncError
from millstream.store.log.files.writing import Unflushed, Writing
from millstream.store.log.saving import checkpoint
from millstream.store.log.saving.guard import Guard
from millstream.store.log.saving.snapshots import Checkpoint, Written
from millstream.store.log.wal.segments import DamagedError

LIMIT = 2**20
PIECE = b"x" * 2**16


def fill(data: Opened) -> int:
    """Append until that is refused; gives how many bytes were accepted."""
    for number in range(1_000):
        found = data.append("/a", PIECE)
        if found == Backlogged():
            return number * len(PIECE)
        assert isinstance(found, Append)
    raise AssertionError("nothing is ever refused")


def tick(data: Opened, now_ms: int) -> None:
    async def expire() -> None:
        data.store.expire(now_ms)
        while data.engine.runtime.jobs:  # noqa: ASYNC110  the engine has no event for it
            await asyncio.sleep(0.001)

    data.runner.run(expire())


def test_a_guard_that_is_held_stops_changes_before_memory_fills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoint, "_WARN_POSTPONED_S", 0.0)
    with opened(tmp_path, max_unsaved_bytes=LIMIT) as data:
        data.create("/a")
        data.create("/b")
        other = Guard(tmp_path)
        other.wait()
        assert LIMIT <= fill(data) + len(PIECE) <= 2 * LIMIT
        assert data.store.unsaved_bytes >= LIMIT
        assert data.store.failure == "its checkpoints are behind"
        found = data.store.read("/a", ReadRequest(), 100, NOW_MS)
        assert len(found.data) == 100  # type: ignore[union-attr]
        assert isinstance(data.delete("/b"), Delete)
        with caplog.at_level(logging.WARNING):
            for seconds in (10, 20, 30):
                tick(data, NOW_MS + seconds * 1000)
        assert "postponed" in caplog.text
        assert data.store.measures is not None
        assert data.store.measures.postponed_since_s > 0
        assert data.append("/a", b"x") == Backlogged()
        other.close()
        tick(data, NOW_MS + 40_000)
        assert data.store.measures.postponed_since_s == 0
        assert isinstance(data.append("/a", b"x"), Append)
        assert data.store.failure is None


def test_checkpoints_that_fail_stop_changes_before_memory_fills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = True
    real = Checkpoint.write

    def write(self: Checkpoint, *arguments: object) -> Written:
        if fails:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Checkpoint, "write", write)
    with opened(tmp_path, max_unsaved_bytes=LIMIT) as data:
        data.create("/a")
        accepted, now_ms = 0, NOW_MS
        for _ in range(5):
            accepted += fill(data)
            now_ms += 60_000
            tick(data, now_ms)
        assert accepted <= 2 * LIMIT, "a checkpoint that failed frees nothing"
        assert data.store.measures is not None
        assert data.store.measures.checkpoint_failures >= 5
        fails = False
        tick(data, now_ms + 60_000)
        assert isinstance(data.append("/a", b"x"), Append)
        data.abandon()
    with opened(tmp_path) as data:
        entry = data.engine.streams.find("/a")
        assert entry is not None
        assert entry.tail == accepted + 1


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EFBIG, "File too large"),
        OSError(errno.EACCES, "Permission denied"),
        DamagedError("parts/1-1.part: ends at byte 0, before 9."),
    ],
    ids=["too large", "not permitted", "damaged"],
)
def test_a_stream_that_cannot_be_saved_ends_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with opened(tmp_path) as data:
        data.create("/bad", body=b"x")
        entry = data.engine.streams.find("/bad")
        assert entry is not None
        id, is_broken, real = entry.stream.id, True, Writing._write_one

        def write(writing: Writing, one: Unflushed, *arguments: Any) -> None:
            if is_broken and one.stream_id == id:
                raise error
            real(writing, one, *arguments)

        monkeypatch.setattr(Writing, "_write_one", write)
        for number in range(3):
            assert isinstance(data.append("/bad", b"y"), Append)
            data.create(f"/{number}", body=b"z")
            tick(data, NOW_MS + number * 10_000)
        assert data.store.failure is None
        assert data.store.measures is not None
        assert data.store.measures.unsaved_streams == 1
        is_broken = False
        tick(data, NOW_MS + 40_000)
        assert not data.engine.streams.dirty
        state = data.state()
    with opened(tmp_path) as data:
        assert data.state() == state
        assert state["/bad"][0] == b"xyyy"  # type: ignore[index]


@pytest.mark.parametrize(
    ("error", "is_retried"),
    [
        (SyncError(errno.ENOSPC, "a sync failed"), False),
        (OSError(errno.EIO, "I/O error"), False),
        (sqlite3.DatabaseError("malformed"), False),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EMFILE, "Too many open files"), True),
    ],
)
def test_only_a_disk_that_cannot_be_trusted_ends_one(error: Exception, is_retried: bool) -> None:
    assert checkpoint.may_retry(error) is is_retried


def test_a_failed_disk_hides_nothing_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads go on until the server has ended, and the catalog is older than what is in memory."""

    def write(*_: object) -> Written:
        raise SyncError(errno.EIO, "a sync failed")

    with opened(tmp_path) as data:
        data.create("/a")
        data.checkpoint()
        assert isinstance(data.append("/a", b"acknowledged"), Append)
        monkeypatch.setattr(Checkpoint, "write", write)
        for seconds in (10, 20, 30, 40):
            tick(data, NOW_MS + seconds * 1000)
        assert data.store.failure == "its disk failed"
        found = data.store.read("/a", ReadRequest(), 100, NOW_MS)
        assert found.data == b"acknowledged"  # type: ignore[union-attr]


def test_a_low_limit_only_makes_checkpoints_more_frequent(tmp_path: Path) -> None:
    with opened(tmp_path, max_unsaved_bytes=LIMIT) as data:
        data.create("/a")
        for _ in range(10 * LIMIT // len(PIECE)):
            assert isinstance(data.append("/a", PIECE), Append)
