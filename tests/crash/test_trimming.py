"""What a stream trims leaves the disk, and nothing else does."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from crash.folders import NOW_MS, OCTETS, Opened, opened
from millstream.protocol.reads import Chunk, OffsetGone
from millstream.protocol.requests import AppendRequest, ReadRequest
from millstream.protocol.retention import Retention
from millstream.store.log.disk import RealDisk
from millstream.store.log.files import layout
from millstream.store.log.files.content import StreamContent
from millstream.store.log.files.layout import LEAST_BYTES
from millstream.store.log.saving.snapshots import Checkpoint
from millstream.store.log.tools.check import verify

KEPT = 4 * LEAST_BYTES
LIMITED = Retention(bytes=KEPT)
PIECE = 10_000


def grow(data: Opened, name: str, appends: int) -> None:
    """Append, trim and checkpoint as a server would over time."""
    for number in range(appends):
        data.append(name, bytes([number % 251]) * PIECE)
        if number % 5 == 4:
            trim(data)
            data.checkpoint()


def trim(data: Opened, now_ms: int = NOW_MS) -> None:
    async def expire() -> None:
        data.store.expire(now_ms)

    data.runner.run(expire())


def room(folder: Path, kind: str = "bin") -> int:
    return sum(path.stat().st_size for path in folder.glob(f"streams/*/*.{kind}"))


def read(data: Opened, name: str, offset: int = -1, limit: int = 2**20) -> Any:
    return data.wait(data.store.read(name, ReadRequest(offset=offset), limit, NOW_MS))


def test_room_is_given_back_while_a_stream_grows(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/s", retention=LIMITED)
        for _ in range(6):
            grow(data, "/s", 40)
            assert room(tmp_path) <= KEPT + KEPT // 16 + 2 * LEAST_BYTES + 5 * PIECE
            assert len(data.engine.files._open) <= 1 + KEPT // LEAST_BYTES
            assert read(data, "/s").end == data.engine.streams.find("/s").stream.tail  # type: ignore[union-attr]
    assert verify(tmp_path).is_sound
    with opened(tmp_path) as data:
        data.delete("/s")
    assert list(tmp_path.glob("streams/*/*")) == []


def test_the_index_of_many_small_appends_is_given_back_too(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/s", retention=Retention(bytes=1000))
        for number in range(6000):
            request = AppendRequest(b"%06d" % number, OCTETS, False, None, None)
            data.store.append("/s", request, NOW_MS)
            if number % 1000 == 999:
                data.append("/s", b"......")
                trim(data)
                data.checkpoint()
        assert room(tmp_path, "index") <= 2 * LEAST_BYTES // 64 * 17
        assert read(data, "/s").data.endswith(b"005999......")
    assert verify(tmp_path).is_sound
    with opened(tmp_path) as data:
        first = read(data, "/s", limit=1).start
        assert data.engine.streams.find("/s").bounds(first) == (first, first + 6)  # type: ignore[union-attr]


def test_a_file_that_an_unfinished_checkpoint_removed_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with opened(tmp_path) as data:
        data.create("/s", retention=Retention(seconds=1))
        data.append("/s", b"a" * 30_000)
        data.checkpoint()
        trim(data, NOW_MS + 10_000)
        with monkeypatch.context() as broken:
            broken.setattr(Checkpoint, "_write_files", fail)
            data.checkpoint()
        assert room(tmp_path) == 0
        data.abandon()
    with opened(tmp_path) as data:
        data.append("/s", b"b" * 1_000)
        data.checkpoint()
    assert verify(tmp_path).is_sound
    with opened(tmp_path) as data:
        assert read(data, "/s", 30_000).data == b"b" * 1_000


def test_an_idle_stream_whose_time_is_over_takes_no_room(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/s", body=b"x" * 50_000, retention=Retention(seconds=10))
        data.checkpoint()
        assert room(tmp_path) >= 50_000
        trim(data, NOW_MS + 11_000)
        data.until(lambda: not data.engine.runtime.jobs)
        data.checkpoint()
        assert room(tmp_path) == 0
    assert verify(tmp_path).is_sound
    with opened(tmp_path) as data:  # and it can grow on, in the middle of a file that is not there
        data.append("/s", b"more")
        data.checkpoint()
        assert read(data, "/s").data == b"more"
    with opened(tmp_path) as data:
        found = read(data, "/s")
        assert (found.start, found.data) == (50_000, b"more")
    assert verify(tmp_path).is_sound


def test_forks_hold_files_only_as_long_as_they_live(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/s", retention=LIMITED)
        grow(data, "/s", 30)
        data.create("/f", forked_from="/s", retention=Retention(bytes=2**40))
        inherited = read(data, "/f").data
        for _ in range(4):
            grow(data, "/s", 60)
            assert room(tmp_path) <= len(inherited) + KEPT + KEPT // 16 + 4 * LEAST_BYTES + 5 * PIECE
            assert read(data, "/f").data == inherited
    assert verify(tmp_path).is_sound
    with opened(tmp_path) as data:
        assert read(data, "/f").data == inherited
        data.delete("/f")
        data.checkpoint()
        assert room(tmp_path) <= KEPT + KEPT // 16 + 2 * LEAST_BYTES + 5 * PIECE
        assert room(tmp_path, "index") <= 2 * LEAST_BYTES // 64 * 17
    assert verify(tmp_path).is_sound


def test_a_read_during_a_checkpoint_that_removes_files_finds_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time a file is removed, everything that is kept is read, and its appends are looked up."""
    with opened(tmp_path) as data:
        data.create("/s", retention=LIMITED)
        looked = 0
        whole = b"".join(bytes([number % 251]) * PIECE for number in range(60))
        remove = RealDisk.remove

        def look(disk: RealDisk, name: str) -> None:
            nonlocal looked
            remove(disk, name)
            if not name.startswith("streams/"):
                return
            looked += 1
            entry = data.engine.streams.by_name["/s"]
            for position in range(entry.start, entry.tail, PIECE):
                assert entry.bounds(position) == (position, position + PIECE)
                assert entry.fetch(position, position + PIECE) == whole[position : position + PIECE]

        monkeypatch.setattr(RealDisk, "remove", look)
        monkeypatch.setattr(data.engine.runtime, "in_background", lambda job, done: done(_attempt(job)))
        grow(data, "/s", 60)
        assert looked > 3


def _attempt(job: Any) -> BaseException | None:
    try:
        job()
    except Exception as error:
        return error
    return None


def test_what_is_gone_stays_gone_when_the_log_alone_knows(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/s", retention=LIMITED)
        for number in range(60):
            data.append("/s", bytes([number]) * PIECE)
        data.engine._now_ms = NOW_MS  # so that the next checkpoint is the one below
        data.checkpoint()
        trim(data)
        data.append("/s", b"last")
        start = data.engine.streams.find("/s").start  # type: ignore[union-attr]
        assert start > 0
        data.abandon()
    before = room(tmp_path)
    assert verify(tmp_path).is_sound
    with opened(tmp_path) as data:
        assert read(data, "/s", 0) == OffsetGone(start)
        assert isinstance(read(data, "/s", start), Chunk)
        data.append("/s", b"!")
        data.checkpoint()
        assert room(tmp_path) < before - LEAST_BYTES


def test_files_that_were_removed_before_a_crash_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog is the old one, which says that they are needed; the log says that they are not."""
    with opened(tmp_path) as data:
        data.create("/s", retention=LIMITED)
        for number in range(60):
            data.append("/s", bytes([number]) * PIECE)
        data.engine._now_ms = NOW_MS  # so that the next checkpoint is the one below
        data.checkpoint()
        trim(data)
        data.append("/s", b"last")
        with monkeypatch.context() as patch:
            patch.setattr(data.engine.catalog, "checkpoint", _fail)
            data.checkpoint()
        data.abandon()
    assert verify(tmp_path).is_sound
    with opened(tmp_path) as data:
        found = read(data, "/s")
        assert found.data.endswith(b"last")
        entry = data.engine.streams.find("/s")
        assert entry is not None
        for position in range(entry.start, 60 * PIECE, PIECE):
            assert entry.bounds(position) == (position, position + PIECE)
        grow(data, "/s", 20)
    assert verify(tmp_path).is_sound


def _fail(*_: object) -> None:
    raise OSError(24, os.strerror(24))


@pytest.mark.parametrize("kind", ["bin", "index", "sum", "times"])
def test_a_file_that_is_missing_is_found_by_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(layout, "PAGE_ENTRIES", 4)  # times are in a file when they fill a page
    with opened(tmp_path) as data:
        data.create("/s", retention=LIMITED)
        grow(data, "/s", 60)
    files = sorted(tmp_path.glob(f"streams/*/*.{kind}"), key=lambda path: path.stat().st_mtime_ns)
    files[-1].unlink()
    report = verify(tmp_path)
    assert any(f"{files[-1].name}: is missing." in complaint for complaint in report.complaints)


def test_a_folder_of_before_retention_is_read(tmp_path: Path) -> None:
    """Streams without limits lie where they always lay."""
    with opened(tmp_path) as data:
        data.create("/s", body=b"one" * 10_000)
        data.append("/s", b"two")
        content = data.engine.streams.find("/s").content  # type: ignore[union-attr]
        assert isinstance(content, StreamContent)
        assert [Path(name).suffixes for name in content.names()] == [
            [".bin"],
            [".sum"],
            [".index"],
            [".times"],
        ]
    (path,) = tmp_path.glob("streams/*/*.bin")
    assert path.read_bytes() == b"one" * 10_000 + b"two"
