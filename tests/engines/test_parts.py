"""Parts: staged by many, committed by one, all or nothing (rule X3)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engines.driving import JSON, Engine
from millstream.protocol.expiry import Lifetime
from millstream.protocol.fingerprints import FingerprintDiffers
from millstream.protocol.lifecycle import Delete
from millstream.protocol.parts import (
    AlreadyStaged,
    Commit,
    Drop,
    PartConflict,
    PartMissing,
    Stage,
    StagedTooMuch,
    TooManyParts,
)
from millstream.protocol.producers import Fenced, Stamp
from millstream.protocol.staging import PART_LIFETIME_MS
from millstream.protocol.streams import Closed, Duplicate, NotFound, SeqRegressed, SoftDeleted, TypeMismatch
from millstream.store.log.cache import machine_memory


def test_parts_are_invisible_until_they_are_committed_in_order(
    engine: Engine, meanwhile: Callable[[], None]
) -> None:
    engine.create("/a", b"start ")
    engine.changes.clear()
    assert isinstance(engine.stage("/a", "two", b"second "), Stage)
    meanwhile()
    assert isinstance(engine.stage("/a", "one", b"first "), Stage)
    meanwhile()
    assert engine.content("/a") == b"start "
    assert engine.stream("/a").tail == 6
    assert engine.changes == []
    decision = engine.commit("/a", "one", "two")
    assert isinstance(decision, Commit)
    assert (decision.append.tail, decision.size) == (19, 13)
    assert engine.changes == ["/a"]
    for _ in range(2):
        assert engine.content("/a") == b"start first second "
        assert engine.stream("/a").tail == 19
        meanwhile()
    engine.append("/a", b"end")
    meanwhile()
    assert engine.content("/a") == b"start first second end"


def test_a_commit_leaves_what_an_append_of_the_same_bytes_leaves(
    engine: Engine, meanwhile: Callable[[], None]
) -> None:
    engine.create("/parts", content_type=JSON)
    engine.create("/plain", content_type=JSON)
    engine.stage("/parts", "a", b"[1, [2]]", content_type=JSON)
    meanwhile()
    engine.stage("/parts", "b", b' {"n": 3} ', content_type=JSON)
    assert isinstance(engine.commit("/parts", "a", "b"), Commit)
    engine.append("/plain", b'[1, [2], {"n": 3}]', content_type=JSON)
    meanwhile()
    assert engine.content("/parts") == engine.content("/plain") == b'1,[2],{"n": 3},'
    for max_bytes in range(1, 16):
        position, found = 0, b""
        while position < engine.stream("/parts").tail:
            chunk = engine.chunk("/parts", position, max_bytes=max_bytes)
            position, found = chunk.end, found + chunk.data
        assert found == engine.content("/plain")


def test_a_part_is_consumed_once(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/a")
    engine.stage("/a", "x", b"x")
    meanwhile()
    assert isinstance(engine.commit("/a", "x"), Commit)
    meanwhile()
    assert engine.commit("/a", "x") == PartMissing("x")
    assert isinstance(engine.stage("/a", "x", b"other bytes"), Stage)
    meanwhile()
    assert isinstance(engine.commit("/a", "x"), Commit)
    meanwhile()
    assert engine.content("/a") == b"xother bytes"


def test_a_missing_part_commits_nothing(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/a")
    engine.stage("/a", "x", b"x")
    meanwhile()
    assert engine.commit("/a", "x", "nowhere") == PartMissing("nowhere")
    assert engine.content("/a") == b""
    meanwhile()
    assert isinstance(engine.commit("/a", "x"), Commit)


def test_the_same_bytes_again_are_fine_and_others_are_not(
    engine: Engine, meanwhile: Callable[[], None]
) -> None:
    engine.create("/a")
    engine.stage("/a", "x", b"bytes")
    meanwhile()
    assert engine.stage("/a", "x", b"bytes") == AlreadyStaged()
    assert engine.stage("/a", "x", b"BYTES") == PartConflict("x")
    assert engine.stage("/a", "x", b"bytes and more") == PartConflict("x")
    meanwhile()
    engine.commit("/a", "x")
    assert engine.content("/a") == b"bytes"


def test_a_dropped_part_is_gone(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/a")
    engine.stage("/a", "x", b"x")
    engine.stage("/a", "y", b"y")
    meanwhile()
    assert engine.drop_part("/a", "x") == Drop(["x"])
    assert engine.drop_part("/a", "x") == Drop([])
    meanwhile()
    assert engine.commit("/a", "x") == PartMissing("x")
    assert isinstance(engine.commit("/a", "y"), Commit)
    assert engine.content("/a") == b"y"


def test_a_producers_commit_is_made_once_and_repeated_for_ever(
    engine: Engine, meanwhile: Callable[[], None]
) -> None:
    engine.create("/a")
    engine.stage("/a", "x", b"x")
    stamp = Stamp(b"driver", 7, 0)
    assert isinstance(engine.commit("/a", "x", stamp=stamp), Commit)
    meanwhile()
    assert engine.commit("/a", "x", stamp=stamp) == Duplicate(1, False, 7, 0)
    engine.stage("/a", "y", b"y")
    meanwhile()
    assert engine.commit("/a", "y", stamp=stamp) == Duplicate(1, False, 7, 0)
    assert engine.commit("/a", "y", stamp=Stamp(b"driver", 6, 0)) == Fenced(7)
    assert engine.content("/a") == b"x"


def test_a_commit_obeys_stream_seq(engine: Engine) -> None:
    engine.create("/a")
    engine.append("/a", b"x", seq=b"b")
    engine.stage("/a", "y", b"y")
    assert engine.commit("/a", "y", seq=b"a") == SeqRegressed(b"b", b"a", 1)
    assert isinstance(engine.commit("/a", "y", seq=b"c"), Commit)
    assert engine.append("/a", b"z", seq=b"c") == SeqRegressed(b"c", b"c", 2)


def test_a_commit_can_close_and_what_was_not_committed_goes(
    engine: Engine, meanwhile: Callable[[], None]
) -> None:
    engine.create("/a")
    engine.stage("/a", "x", b"x")
    engine.stage("/a", "left", b"left")
    meanwhile()
    stamp = Stamp(b"p", 0, 0)
    assert isinstance(engine.commit("/a", "x", closes=True, stamp=stamp), Commit)
    meanwhile()
    assert engine.stream("/a").closed
    assert engine.content("/a") == b"x"
    assert engine.stage("/a", "y", b"y") == Closed(1)
    assert engine.commit("/a", "left") == Closed(1)
    assert engine.commit("/a", "x", closes=True, stamp=stamp) == Duplicate(1, True, 0, 0)
    assert engine.staged("/a") == []


def test_closing_drops_what_waits(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/a")
    engine.stage("/a", "x", b"x")
    meanwhile()
    engine.append("/a", closes=True)
    meanwhile()
    assert engine.staged("/a") == []


def test_parts_are_checked_like_appends(engine: Engine) -> None:
    engine.create("/a")
    assert engine.stage("/a", "x", b"1", content_type=JSON) == TypeMismatch(b"text/plain", JSON)
    assert engine.stage("/nowhere", "x", b"x") == NotFound("/nowhere")
    assert engine.commit("/nowhere", "x") == NotFound("/nowhere")
    assert engine.drop_part("/nowhere", "x") == NotFound("/nowhere")


def test_parts_end_with_their_stream(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/a")
    engine.stage("/a", "x", b"x")
    meanwhile()
    assert isinstance(engine.delete("/a"), Delete)
    meanwhile()
    engine.create("/a")
    meanwhile()
    assert engine.commit("/a", "x") == PartMissing("x")


def test_a_stream_deleted_for_its_readers_has_no_parts(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/a", b"kept")
    engine.fork("/b", "/a")
    engine.stage("/a", "x", b"x")
    meanwhile()
    engine.delete("/a")
    meanwhile()
    assert engine.stage("/a", "x", b"x") == SoftDeleted("/a")
    assert engine.commit("/a", "x") == SoftDeleted("/a")
    assert engine.content("/b") == b"kept"


def test_a_fork_inherits_what_was_committed_but_no_parts(
    engine: Engine, meanwhile: Callable[[], None]
) -> None:
    engine.create("/a", b"one ")
    engine.stage("/a", "two", b"two ")
    engine.stage("/a", "three", b"three ")
    meanwhile()
    engine.commit("/a", "two")
    engine.fork("/b", "/a")
    meanwhile()
    assert engine.commit("/b", "three") == PartMissing("three")
    assert isinstance(engine.stage("/b", "three", b"3 "), Stage)
    engine.commit("/b", "three")
    engine.commit("/a", "three")
    meanwhile()
    assert engine.content("/b") == b"one two 3 "
    assert engine.content("/a") == b"one two three "


def test_a_part_waits_for_a_day(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/a")
    engine.stage("/a", "old", b"old")
    meanwhile()
    engine.now_ms += PART_LIFETIME_MS - 1
    engine.stage("/a", "young", b"young")
    assert engine.stage("/a", "old", b"old") == AlreadyStaged()
    engine.now_ms += 1
    assert engine.commit("/a", "old") == PartMissing("old")
    assert isinstance(engine.stage("/a", "old", b"new bytes"), Stage)
    meanwhile()
    assert isinstance(engine.commit("/a", "old", "young"), Commit)
    assert engine.content("/a") == b"new bytesyoung"


def test_parts_that_nobody_asks_for_go_by_themselves(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/a")
    engine.create("/b")
    engine.stage("/a", "x", b"x")
    meanwhile()
    engine.now_ms += PART_LIFETIME_MS
    engine.expire()
    assert engine.staged("/a") == []
    meanwhile()
    assert engine.commit("/a", "x") == PartMissing("x")


def test_parts_count_towards_limits(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.create("/a")
    assert isinstance(engine.stage("/a", "x", b"12345", max_staged_bytes=8), Stage)
    assert engine.stage("/a", "y", b"6789", max_staged_bytes=8) == StagedTooMuch(8)
    assert isinstance(engine.stage("/a", "y", b"678", max_staged_bytes=8), Stage)
    engine.commit("/a", "x")
    assert isinstance(engine.stage("/a", "z", b"6789", max_staged_bytes=8), Stage)
    monkeypatch.setattr("millstream.protocol.parts.MAX_PARTS", 2)
    assert engine.stage("/a", "more", b".") == TooManyParts()
    engine.drop_part("/a", "y")
    assert isinstance(engine.stage("/a", "more", b"."), Stage)


def test_staging_renews_a_lifetime(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/a", lifetime=Lifetime(ttl_s=10))
    for number in range(3):
        engine.now_ms += 8_000
        assert isinstance(engine.stage("/a", str(number), b"x"), Stage)
        meanwhile()
    engine.now_ms += 8_000
    assert engine.stage("/a", "0", b"x") == AlreadyStaged()
    engine.now_ms += 8_000
    assert isinstance(engine.commit("/a", "0"), Commit)
    engine.now_ms += 10_000
    assert engine.stage("/a", "x", b"x") == NotFound("/a")


def test_files_of_parts_go_when_they_are_not_needed(tmp_path: Path) -> None:
    with Engine("log", tmp_path) as engine:
        engine.create("/a")
        engine.create("/b")
        for name in ("/a", "/b"):
            engine.stage(name, "x", b"x" * 1000)
            engine.stage(name, "y", b"y" * 1000)
        engine.checkpoint()
        assert len(_part_files(tmp_path)) == 4
        engine.commit("/a", "y", "x")
        assert engine.content("/a") == b"y" * 1000 + b"x" * 1000
        assert len(_part_files(tmp_path)) == 4  # until a checkpoint has copied them
        engine.drop_part("/b", "x")
        engine.checkpoint()
        (left,) = _part_files(tmp_path)
        assert left.read_bytes()[:1000] == b"y" * 1000  # then checksums
        assert engine.content("/a") == b"y" * 1000 + b"x" * 1000
        engine.delete("/b")
        engine.checkpoint()
        assert _part_files(tmp_path) == []


def test_a_part_that_has_a_file_takes_no_memory(tmp_path: Path) -> None:
    with Engine("log", tmp_path) as engine:
        engine.create("/a")
        engine.stage("/a", "x", b"x" * 1000)
        engine.checkpoint()
        entry = engine.store.engine.streams.find("/a")
        assert entry is not None
        assert not isinstance(entry.staged[0], bytes)
        engine.commit("/a", "x")
        assert entry.staged == {}
        assert not any(isinstance(piece, bytes) for piece in entry.content._pieces)
        assert engine.chunk("/a", 990).data == b"x" * 10


def test_a_file_that_a_crash_left_over_goes(tmp_path: Path) -> None:
    with Engine("log", tmp_path) as engine:
        engine.create("/a")
        engine.stage("/a", "x", b"x")
    (kept,) = _part_files(tmp_path)
    for name in (f"{kept.name[:-6]}9.part", "00000000000000aa-0000000000000000.part"):
        kept.with_name(name).write_bytes(b"left over")
    with Engine("log", tmp_path) as engine:
        engine.checkpoint()
        assert _part_files(tmp_path) == [kept]
        engine.commit("/a", "x")
        assert engine.content("/a") == b"x"


def test_streams_with_parts_are_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_memory, "default_bytes", lambda: 1)
    with Engine("log", tmp_path) as engine:
        engine.create("/a")
        engine.create("/idle")
        engine.stage("/a", "x", b"x")
        engine.checkpoint()
        for _ in range(4):
            engine.now_ms += 10_000
            engine.expire()
        assert list(engine.store.engine.streams.by_name) == ["/a"]
        assert isinstance(engine.commit("/a", "x"), Commit)


def _part_files(folder: Path) -> list[Path]:
    return sorted((folder / "parts").glob("*"))


@pytest.mark.parametrize("closes", [False, True])
def test_a_duplicate_with_another_fingerprint_is_refused(
    engine: Engine, meanwhile: Callable[[], None], closes: bool
) -> None:
    stamp = Stamp(b"query", 7, 0)
    engine.create("/a")
    engine.stage("/a", "x", b"ten rows")
    assert isinstance(engine.commit("/a", "x", stamp=stamp, closes=closes, fingerprint="10"), Commit)
    meanwhile()
    again = engine.commit("/a", "y", stamp=stamp, closes=closes, fingerprint="10")
    assert isinstance(again, Duplicate)
    other = engine.commit("/a", "y", stamp=stamp, closes=closes, fingerprint="12")
    assert other == FingerprintDiffers("10", "12", 8)
    meanwhile()
    assert isinstance(engine.commit("/a", "y", stamp=stamp, closes=closes), Duplicate)
    assert engine.content("/a") == b"ten rows"


def test_a_fingerprint_counts_for_its_own_commit_only(engine: Engine, meanwhile: Callable[[], None]) -> None:
    engine.create("/a")
    for epoch in range(3):
        engine.stage("/a", "x", b"%d" % epoch)
        stamp = Stamp(b"query", epoch, 0)
        assert isinstance(engine.commit("/a", "x", stamp=stamp, fingerprint=str(epoch)), Commit)
        meanwhile()
    engine.stage("/a", "x", b"more")
    assert isinstance(engine.commit("/a", "x", stamp=Stamp(b"query", 2, 1)), Commit)
    meanwhile()
    assert isinstance(engine.commit("/a", "x", stamp=Stamp(b"query", 2, 1), fingerprint="any"), Duplicate)
    assert engine.content("/a") == b"012more"
