"""Files that no longer suit a stream (rule X10): limits that are set later, and trims, free room."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.driving import Engine
from millstream.protocol.offsets import NOW
from millstream.store.log.cache.stream_cache import content_of
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.rows import Changes, Row
from millstream.store.log.files import layout
from millstream.store.log.files.places import Filed
from millstream.store.log.tools.check import verify

from .format_3 import make_former

KIB = 2**10
PIECE = 8 * KIB


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of up to a megabyte, where they are of up to 64."""
    monkeypatch.setattr(layout, "MOST_BYTES", 2**20)
    monkeypatch.setattr(layout, "TIMED_BYTES", 128 * KIB)
    monkeypatch.setattr(layout, "BLOCK_BYTES", 4 * KIB)
    monkeypatch.setattr(layout, "PAGE_ENTRIES", 4)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine("log", tmp_path) as engine:
        engine.create("/anything")
        engine.create("/s")
        yield engine
    report = verify(tmp_path)
    assert report.complaints == []


def fill(engine: Engine, count: int, first: int = 0, name: str = "/s") -> bytes:
    pieces = [(b"%08d" % number) * (PIECE // 8) for number in range(first, first + count)]
    for piece in pieces:
        engine.append(name, piece)
    return b"".join(pieces)


def checkpoint_in_vain(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a checkpoint that writes files, and then has no room for the catalog."""

    def fail(_: Catalog, changes: Changes) -> None:
        list(changes.changed)
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "checkpoint", fail)
        engine.checkpoint()


def settle(engine: Engine) -> None:
    """Trim, write, and remove what is not needed any more."""
    engine.expire()
    engine.append("/anything", b".")
    for _ in range(3):
        engine.append("/anything", b".")
        engine.checkpoint()


def size(folder: Path) -> int:
    """Give what the files of streams take on the disk."""
    return sum(512 * path.stat().st_blocks for path in folder.glob("streams/*/*"))


def editions(engine: Engine, name: str = "/s") -> int:
    place = content_of(engine.store.engine.streams.find(name)).place  # type: ignore[arg-type]
    assert isinstance(place, Filed)
    return place.layout.edition


def test_a_limit_that_is_set_later_frees_room(engine: Engine, tmp_path: Path) -> None:
    content = fill(engine, 100)
    settle(engine)
    assert size(tmp_path) >= 100 * PIECE
    engine.configure("/s", retain_bytes=str(4 * PIECE))
    settle(engine)
    assert editions(engine) == 1
    assert size(tmp_path) < 16 * PIECE
    for _ in range(2):
        assert engine.content("/s") == content[-4 * PIECE :]
        engine.restart()
    content += fill(engine, 50, 100)
    settle(engine)
    assert content.endswith(engine.content("/s"))
    assert editions(engine) == 1
    assert size(tmp_path) < 24 * PIECE


@pytest.mark.parametrize("kept", [0, 1, 5])
def test_a_trim_frees_room(engine: Engine, tmp_path: Path, kept: int) -> None:
    content = fill(engine, 100)
    settle(engine)
    engine.trim("/s", NOW if not kept else (100 - kept) * PIECE)
    settle(engine)
    assert size(tmp_path) < (kept + 4) * PIECE
    content += fill(engine, 3, 100)
    engine.crash()
    assert engine.content("/s") == content[(100 - kept) * PIECE :]


def test_what_forks_share_is_not_written_again(engine: Engine, tmp_path: Path) -> None:
    content = fill(engine, 100)
    settle(engine)
    engine.fork("/f", "/s", 50 * PIECE)
    engine.trim("/s", 95 * PIECE)
    settle(engine)
    assert editions(engine) == 0
    assert engine.content("/f") == content[: 50 * PIECE]
    engine.delete("/f")
    settle(engine)
    assert editions(engine) == 1
    assert size(tmp_path) < 10 * PIECE
    assert engine.content("/s") == content[95 * PIECE :]


def test_files_grow_with_what_a_stream_keeps(engine: Engine, tmp_path: Path) -> None:
    """One that kept little has short files; without its limits it would have very many of them."""
    engine.configure("/s", retain_bytes=str(4 * PIECE))
    content = fill(engine, 20)
    settle(engine)
    engine.configure("/s", retain_bytes="none")
    kept = engine.stream("/s").start
    content += fill(engine, 200, 20)
    settle(engine)
    assert editions(engine) == 1
    assert engine.read("/s", max_bytes=2**24).data == content[kept:]  # type: ignore[union-attr]
    assert len(list(tmp_path.glob("streams/*/*.bin"))) <= 4


def test_a_stream_of_format_3_frees_room(tmp_path: Path) -> None:
    """Its one file has no end, until it is written once more."""
    with Engine("log", tmp_path / "data") as engine:
        engine.create("/anything")
        engine.create("/s")
        content = fill(engine, 100)
    make_former(tmp_path / "data")
    with Engine("log", tmp_path / "data") as engine:
        engine.configure("/s", retain_bytes=str(4 * PIECE))
        engine.crash()
        assert engine.content("/s").endswith(content[-4 * PIECE :])
        settle(engine)
        settle(engine)
        assert engine.content("/s") == content[-4 * PIECE :]
        assert size(tmp_path / "data") < 16 * PIECE
    assert verify(tmp_path / "data").complaints == []


def test_nothing_is_left_of_a_stream_that_is_deleted_meanwhile(engine: Engine, tmp_path: Path) -> None:
    """Neither of the files that it had, nor of those that a checkpoint has just begun."""
    fill(engine, 100)
    settle(engine)
    engine.trim("/s", 95 * PIECE)
    engine.checkpoint()  # the former files are released, and still there
    engine.delete("/s")
    settle(engine)
    assert list(tmp_path.glob("streams/*/*")) == []


def test_released_files_go_after_a_crash(engine: Engine, tmp_path: Path) -> None:
    """The catalog remembers them with the stream."""
    fill(engine, 100)
    settle(engine)
    engine.trim("/s", 95 * PIECE)
    engine.checkpoint()
    before = {path.name for path in tmp_path.glob("streams/*/*")}
    engine.crash()
    assert len(engine.content("/s")) == 5 * PIECE
    settle(engine)
    after = {path.name for path in tmp_path.glob("streams/*/*")}
    assert any("-" not in name for name in before)
    assert all("-1" in name for name in after)
    assert isinstance(engine.store.engine.catalog.by_name("/s"), Row)  # type: ignore[attr-defined]


def test_a_fork_reads_where_its_source_began_in_the_middle_of_a_block(engine: Engine) -> None:
    """However often the source begins anew in a later file while the fork keeps the former one."""
    engine.append("/s", b"x" * 1000)  # so that nothing begins with a block
    fill(engine, 100)
    settle(engine)
    engine.trim("/s", 1000 + 95 * PIECE)
    settle(engine)
    assert editions(engine) == 1
    engine.fork("/f", "/s")
    content = engine.content("/f")
    for first in (100, 300, 500):
        fill(engine, 200, first)
        settle(engine)
        engine.trim("/s", NOW)
        settle(engine)
        engine.restart()
        assert engine.content("/f") == content
        assert engine.content("/s") == b""


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_files_of_another_length_do_not_stay_after_a_checkpoint_that_did_not_finish(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashes: bool, is_deleted: bool
) -> None:
    """It had begun short files for a stream that kept little; a PATCH makes them long."""
    engine.configure("/s", retain_bytes=str(128 * KIB))
    content = fill(engine, 100)

    checkpoint_in_vain(engine, monkeypatch)
    assert len(list(tmp_path.glob("streams/*/*.bin"))) > 4
    if crashes:
        engine.crash()
    engine.configure("/s", retain_bytes="none")
    if is_deleted:
        engine.delete("/s")
    settle(engine)
    assert len(list(tmp_path.glob("streams/*/*.bin"))) == (0 if is_deleted else 1)
    if not is_deleted:
        engine.restart()
        assert content.endswith(engine.content("/s"))


@pytest.mark.parametrize("crashes", [False, True])
def test_nothing_stays_of_the_former_files_that_a_checkpoint_which_did_not_finish_has_made_more(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashes: bool
) -> None:
    """The next one knows how many there were when the stream was last saved, and writes it to other files."""
    engine.configure("/s", retain_bytes=str(128 * KIB))
    fill(engine, 12)
    engine.checkpoint()
    saved = set(tmp_path.glob("streams/*/*"))
    fill(engine, 40, first=12)

    checkpoint_in_vain(engine, monkeypatch)
    assert len(set(tmp_path.glob("streams/*/*")) - saved) > 4
    if crashes:
        engine.crash()
    engine.configure("/s", retain_bytes="none")
    settle(engine)
    assert editions(engine) == 1
    assert {path.name[16:18] for path in tmp_path.glob("streams/*/*")} == {"-1"}
