"""Every byte of a log counts: cut off anywhere, or changed anywhere, it is a prefix or a refusal."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.folders import Opened, facts_of, files_of, opened
from crash.format_3 import tampered
from millstream.protocol.producers import Stamp
from millstream.store.base import StoreError
from millstream.store.log import recovery
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.disk import RealDisk
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.opening import CannotOpenError
from millstream.store.log.tools.check import repair, verify
from millstream.store.log.wal import format
from millstream.store.log.wal.segments import DamagedError, Log

SEGMENT = "wal/00000000000000000001.wal"


@pytest.fixture(scope="module", params=[False, True], ids=["growing", "filled"])
def written(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Path, list[tuple[int, object]]]:
    """A folder as a crash leaves it, and its state at the end of each frame."""
    folder = tmp_path_factory.mktemp("written")
    with opened(folder, durable=request.param, segment_bytes=2048) as data:
        steps = [(format.SEGMENT_HEADER_BYTES, data.state())]
        for change in _changes(data):
            change()
            steps.append((data.engine.log._position, data.state()))
        data.abandon()
    return folder, steps


def _changes(data: Opened) -> Iterator[object]:
    yield lambda: data.create("/a", body=b"one")
    yield lambda: data.append("/a", b"two", Stamp(b"p", 0, 0))
    yield lambda: data.create("/b")
    yield lambda: data.create("/c", forked_from="/a", fork_offset=3)
    yield lambda: data.append("/b", b"x" * 40)
    yield lambda: data.append("/a", b"end", Stamp(b"p", 0, 1), closes=True)
    yield lambda: data.stage("/b", "one", b"1" * 30)
    yield lambda: data.stage("/b", "two", b"2" * 20)
    yield lambda: data.stage("/c", "three", b"3" * 10)
    yield lambda: data.commit("/b", "two", "one", stamp=Stamp(b"q", 5, 0))
    yield lambda: data.drop_part("/c", "three")
    yield lambda: data.stage("/c", "three", b"4" * 10)
    yield lambda: data.delete("/b")


def _copy(folder: Path, to: Path) -> Path:
    if to.exists():
        shutil.rmtree(to)
    return Path(shutil.copytree(folder, to))


def _read(folder: Path) -> tuple[object, int]:
    """Read a folder as a start does, without writing to it: the state, and where the log ends."""
    disk = RealDisk(folder, durable=False)
    files, catalog, log = StreamFiles(disk), Catalog(":memory:"), Log(disk, 2**20)
    try:
        cache = recovery.recover(catalog, log, files)
        state = {name: facts_of(entry) for name, entry in cache.by_name.items()}
        return state, log.segments[-1].end
    finally:
        files.close()
        catalog.close()
        disk.close()


def test_a_log_cut_at_any_byte_gives_the_frames_before_it(
    written: tuple[Path, list[tuple[int, object]]], tmp_path: Path
) -> None:
    folder, steps = written
    whole = (folder / SEGMENT).read_bytes()
    copy = _copy(folder, tmp_path / "copy")
    for size in range(len(whole) + 1):
        (copy / SEGMENT).write_bytes(whole[:size])
        if size < format.SEGMENT_HEADER_BYTES:
            with pytest.raises(DamagedError, match=rf"{SEGMENT}: damaged at byte 0"):
                _read(copy)
            continue
        end, state = [step for step in steps if step[0] <= size][-1]
        assert _read(copy) == (state, end), f"cut at {size}"


def test_a_log_cut_at_any_frame_goes_on_where_it_was_cut(
    written: tuple[Path, list[tuple[int, object]]], tmp_path: Path
) -> None:
    folder, steps = written
    whole = (folder / SEGMENT).read_bytes()
    for end, state in steps[1:]:
        for more in (0, 1, 30):
            copy = _copy(folder, tmp_path / "copy")
            (copy / SEGMENT).write_bytes(whole[: end + more])
            with opened(copy) as data:
                expected = dict(state)
                assert data.state() == expected
                data.create("/new", body=b"after")
            with opened(copy) as data:
                assert data.state().pop("/new")[0] == b"after"
                assert {name: facts for name, facts in data.state().items() if name != "/new"} == expected


def test_a_changed_byte_is_never_silent(
    written: tuple[Path, list[tuple[int, object]]], tmp_path: Path
) -> None:
    folder, steps = written
    whole = (folder / SEGMENT).read_bytes()
    copy = _copy(folder, tmp_path / "copy")
    (last_frame, before_last), (end, last) = steps[-2:]
    for position in range(len(whole)):
        for bit in (position % 8, (position + 5) % 8):
            flipped = bytearray(whole)
            flipped[position] ^= 1 << bit
            (copy / SEGMENT).write_bytes(flipped)
            if position >= end:  # behind the last frame: nothing of ours
                assert _read(copy) == (last, end)
                continue
            if position >= last_frame:
                assert _read(copy) == (before_last, last_frame)
                continue
            with pytest.raises(DamagedError) as damage:
                _read(copy)
            found = re.match(rf"{SEGMENT}: damaged at byte (\d+): ", str(damage.value))
            assert found, str(damage.value)
            begins = [end for end, _ in steps if end <= position]
            assert int(found[1]) == (begins[-1] if begins else 0)


def test_a_refusal_names_the_place_and_touches_nothing(
    written: tuple[Path, list[tuple[int, object]]], tmp_path: Path
) -> None:
    folder, steps = written
    copy = _copy(folder, tmp_path / "copy")
    place = steps[2][0]
    _flip(copy / SEGMENT, place + 30)
    (copy / "wal/spare.tmp").write_bytes(b"spare")
    before = files_of(copy)
    for _ in range(5):
        expected = rf"{SEGMENT}: damaged at byte {place}: whole frames follow"
        with pytest.raises(StoreError, match=expected), opened(copy):
            pass
    assert files_of(copy) == before


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


@pytest.fixture
def segmented(tmp_path: Path) -> Path:
    """A folder whose log has several segments, the first of them covered by a checkpoint."""
    folder = tmp_path / "segmented"
    with opened(folder, segment_bytes=1024) as data:
        data.create("/a")
        for number in range(60):
            data.append("/a", b"%03d" % number * 20)
            if number == 30:
                data.checkpoint()
        data.abandon()
    return folder


def _segments(folder: Path) -> list[Path]:
    return sorted((folder / "wal").glob("*.wal"))


def test_segments_are_recycled_and_read_on(segmented: Path) -> None:
    assert len(_segments(segmented)) < 6
    with opened(segmented, segment_bytes=1024) as data:
        content = data.state()["/a"][0]
    assert content == b"".join(b"%03d" % number * 20 for number in range(60))


def test_a_missing_segment_is_refused(segmented: Path) -> None:
    _segments(segmented)[1].rename(segmented / "elsewhere")
    with (
        pytest.raises(StoreError, match=r"wal/\d+\.wal: damaged at byte \d+: record \d+ must come next"),
        opened(segmented),
    ):
        pass


def test_a_damaged_segment_before_the_last_is_refused_also_at_its_end(segmented: Path) -> None:
    segment = _segments(segmented)[-2]
    segment.write_bytes(segment.read_bytes().rstrip(b"\0")[:-9])
    before = files_of(segmented)
    with pytest.raises(StoreError, match=rf"{segment.name}: damaged at byte \d+"), opened(segmented):
        pass
    assert files_of(segmented) == before


@pytest.mark.parametrize("keep", [0, 1])
def test_a_log_that_does_not_reach_the_catalogs_position_is_refused(tmp_path: Path, keep: int) -> None:
    with opened(tmp_path) as data:
        data.create("/a")
        data.append("/a", b"kept")
        data.checkpoint()
        data.abandon()
    segment = tmp_path / SEGMENT
    if keep:
        segment.write_bytes(segment.read_bytes()[: format.SEGMENT_HEADER_BYTES])
    else:
        segment.unlink()
    before = files_of(tmp_path)
    with pytest.raises(StoreError, match="record 2 is known to have been in the log"), opened(tmp_path):
        pass
    assert files_of(tmp_path) == before


def test_a_log_that_begins_too_late_is_refused(segmented: Path) -> None:
    for name in ("catalog.db", "catalog.db-wal", "catalog.db-shm"):
        (segmented / name).unlink(missing_ok=True)
    with pytest.raises(StoreError, match=r"catalog\.db: is missing"), opened(segmented):
        pass
    (segmented / "catalog.sum").unlink()
    with pytest.raises(StoreError, match="the log begins with record"), opened(segmented):
        pass


@pytest.fixture
def staged(tmp_path: Path) -> tuple[Path, list[tuple[int, object]]]:
    """A folder whose log commits and drops parts that a checkpoint has put into files."""
    folder = tmp_path / "staged"
    with opened(folder) as data:
        data.create("/a", body=b"zero ")
        for id in ("one", "two", "three"):
            data.stage("/a", id, id.encode() * 20)
        data.checkpoint()
        steps = [(data.engine.log._position, data.state())]
        for change in (
            lambda: data.commit("/a", "two", "one", stamp=Stamp(b"p", 0, 0)),
            lambda: data.drop_part("/a", "three"),
            lambda: data.stage("/a", "four", b"4"),
            lambda: data.commit("/a", "four"),
        ):
            change()
            steps.append((data.engine.log._position, data.state()))
        data.abandon()
    return folder, steps


def test_a_log_cut_at_any_byte_still_finds_its_parts_in_their_files(
    staged: tuple[Path, list[tuple[int, object]]], tmp_path: Path
) -> None:
    folder, steps = staged
    whole = (folder / SEGMENT).read_bytes()
    for size in range(steps[0][0], steps[-1][0] + 1):
        copy = _copy(folder, tmp_path / "copy")
        (copy / SEGMENT).write_bytes(whole[:size])
        state = [step for step in steps if step[0] <= size][-1][1]
        with opened(copy) as data:
            assert data.state() == state, f"cut at {size}"
        with opened(copy) as data:  # after its last checkpoint, too
            assert data.state() == state, f"cut at {size}"
        assert verify(copy).is_sound


def test_a_missing_or_short_part_file_is_found(
    staged: tuple[Path, list[tuple[int, object]]], tmp_path: Path
) -> None:
    copy = _copy(staged[0], tmp_path / "copy")
    assert verify(copy).is_sound
    assert verify(copy).parts == 3
    first, second, _ = sorted((copy / "parts").iterdir())
    first.write_bytes(first.read_bytes()[:-1])
    second.unlink()
    assert verify(copy).complaints == [
        f"parts/{first.name}: the block at byte 0 is damaged. (/a)",
        f"parts/{second.name}: is missing. (/a)",
    ]


def test_a_record_of_parts_that_are_not_there_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/a")
        data.stage("/a", "one", b"1")
        entry = data.engine.streams.find("/a")
        assert entry is not None
        meta = format.CommitMeta(format.AppendMeta(0, 0), ["other"])
        data.engine.journal._queue(entry, meta)
        data.wait(data.engine.journal.when_durable(None))
        data.abandon()
    with pytest.raises(StoreError, match=r"record 3 does not fit .*: /a has no part other"), opened(tmp_path):
        pass


def test_a_short_stream_file_is_an_error_not_a_short_answer(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/a")
        data.append("/a", b"0123456789" * 2_000)
    (content,) = tmp_path.glob("streams/*/*.bin")
    content.write_bytes(b"01234")
    with opened(tmp_path) as data, pytest.raises(DamagedError, match=r"\.bin: ends at byte 5, before 20000"):
        data.state()


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), OSError(5, "I/O error"), OSError(24, "Too many")]
)
@pytest.mark.parametrize("call", ["open", "names"])
def test_an_error_while_recovering_refuses_and_deletes_nothing(
    segmented: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, call: str
) -> None:
    before = files_of(segmented)

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(RealDisk, call, fail)
        with pytest.raises(CannotOpenError, match=re.escape(error.strerror or "")), opened(segmented):
            pass
    assert files_of(segmented) == before
    with opened(segmented) as data:  # and it can be opened again: the lock and the files were let go
        assert data.state()["/a"]


def test_a_catalog_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database at all, but long enough to look like one" * 100)
    with pytest.raises(CannotOpenError, match="file is not a database"), opened(tmp_path):
        pass


# -- millstream check ------------------------------------------------------------------------------------


def test_a_sound_folder_is_called_sound(segmented: Path) -> None:
    before = files_of(segmented)
    report = verify(segmented)
    assert report.is_sound, report.complaints
    assert (report.streams, report.last_lsn) == (1, 61)
    assert files_of(segmented) == before


def test_damage_is_found_where_a_start_finds_it(
    written: tuple[Path, list[tuple[int, object]]], tmp_path: Path
) -> None:
    folder, steps = written
    copy = _copy(folder, tmp_path / "copy")
    _flip(copy / SEGMENT, steps[3][0] + 30)
    before = files_of(copy)
    report = verify(copy)
    assert not report.is_sound
    assert report.cut is not None
    assert (report.cut.name, report.cut.position, report.cut.last_lsn) == (SEGMENT, steps[3][0], 3)
    assert files_of(copy) == before
    aside = repair(report)
    assert aside is not None
    assert (aside / Path(SEGMENT).name).read_bytes() == before[SEGMENT][steps[3][0] :]
    assert verify(copy).is_sound
    with opened(copy) as data:
        assert data.state() == steps[3][1]


def test_repair_puts_later_segments_aside(segmented: Path) -> None:
    first, second, *_ = _segments(segmented)[-3:]
    _flip(first, 100)
    later = {path.name: path.read_bytes() for path in _segments(segmented) if path.name >= second.name}
    report = verify(segmented)
    assert report.cut is not None
    assert report.can_be_cut, report
    aside = repair(report)
    assert aside is not None
    assert {name: (aside / name).read_bytes() for name in later} == later
    with opened(segmented) as data:
        assert data.state()["/a"][0].startswith(b"000")


def test_what_the_catalog_knows_cannot_be_cut_off(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/a")
        data.append("/a", b"kept")
        data.checkpoint()
        data.append("/a", b"more")
        data.abandon()
    _flip(tmp_path / SEGMENT, format.SEGMENT_HEADER_BYTES + 30)
    report = verify(tmp_path)
    assert not report.is_sound
    assert not report.can_be_cut


def test_a_torn_tail_is_mentioned_but_no_complaint(
    written: tuple[Path, list[tuple[int, object]]], tmp_path: Path
) -> None:
    folder, steps = written
    copy = _copy(folder, tmp_path / "copy")
    (copy / SEGMENT).write_bytes((folder / SEGMENT).read_bytes()[: steps[-1][0] - 9])
    report = verify(copy)
    assert report.is_sound
    assert report.cut is not None
    assert (report.cut.position, report.cut.is_torn_tail) == (steps[-2][0], True)


def test_files_that_do_not_match_the_catalog_are_found(segmented: Path) -> None:
    with opened(segmented) as data:
        data.create("/large", body=b"x" * 20_000)
    (index,) = segmented.glob("streams/*/*.index")
    index.write_bytes(bytes(len(index.read_bytes())))
    assert f"streams/02/{index.name}: the page at byte 0 is damaged. (/large)" in verify(segmented).complaints
    (content,) = segmented.glob("streams/*/*.bin")
    content.unlink()
    assert f"streams/02/{content.name}: is missing. (/large)" in verify(segmented).complaints
    (pack,) = segmented.glob("packs/*.pack")
    pack.write_bytes(pack.read_bytes()[:-1] + b"?")
    assert any("the slot at byte" in complaint for complaint in verify(segmented).complaints)


def test_fork_counts_that_do_not_match_are_found(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/a")
        data.create("/b", forked_from="/a")
    with tampered(tmp_path) as catalog:
        catalog.execute("delete from streams where name = '/b'")
    assert verify(tmp_path).complaints == ["/a: counts 1 forks, but has 0."]
