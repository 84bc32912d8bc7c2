"""Data folders of other versions: older ones open, and are then closed to the programs that wrote them."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from crash.folders import files_of, opened
from crash.format_3 import make_former, tampered
from millstream.protocol.producers import ProducerState, Stamp
from millstream.protocol.streams import Append, Duplicate
from millstream.store.base import StoreError
from millstream.store.log.catalog.versions import VERSION
from millstream.store.log.tools.archives import new_archive
from millstream.store.log.tools.backup import back_up
from millstream.store.log.tools.check import verify

VERSION_1 = """
create table if not exists facts (name text primary key, value integer not null) without rowid;
create index if not exists streams_by_name on streams (name);
"""
"""What a program of version 1 runs first that matters here."""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A folder as version 1 has left it: the producers of a stream are in its state."""
    with opened(tmp_path) as data:
        data.create("/a")
        for seq in range(3):
            data.append("/a", b"x", Stamp(b"p", 0, seq))
        data.append("/a", b"y", Stamp(b"q", 4, 0))
        entry = data.engine.streams.find("/a")
        assert entry is not None
        known = entry.stream.producers or {}
        former = {id: Stamp(id, state.epoch, state.seq) for id, state in known.items()}
        stream = msgspec.structs.replace(entry.stream, producers=former)
    make_former(tmp_path)
    with tampered(tmp_path) as catalog:
        catalog.execute("update streams set state = ?", (msgspec.msgpack.encode(stream),))
        catalog.executescript(
            "drop view facts; drop table producers; drop table held;"
            "create table facts (name text primary key, value integer not null) without rowid;"
            "insert into facts select * from numbers; drop table numbers; pragma user_version = 0;"
        )
    return tmp_path


def test_a_folder_of_version_1_keeps_its_producers(older: Path) -> None:
    assert verify(older).is_sound
    for _ in range(2):
        with opened(older) as data:
            assert isinstance(data.append("/a", b"x", Stamp(b"p", 0, 2)), Duplicate)
            assert isinstance(data.append("/a", b"y", Stamp(b"q", 4, 0)), Duplicate)
    with opened(older) as data:
        assert isinstance(data.append("/a", b"z", Stamp(b"p", 0, 3)), Append)
    with opened(older) as data:  # now they have rows
        entry = data.engine.streams.find("/a")
        assert entry is not None
        assert entry.stream.producers is None
        assert data.engine.catalog.producers(entry.stream.id).keys() == {b"p", b"q"}
        assert isinstance(data.append("/a", b"z", Stamp(b"p", 0, 3)), Duplicate)
        assert isinstance(data.append("/a", b"y", Stamp(b"q", 4, 0)), Duplicate)


def test_a_folder_of_version_2_opens(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/a", body=b"x")
        data.append("/a", b"y", Stamp(b"p", 0, 0))
    make_former(tmp_path)
    with tampered(tmp_path) as catalog:
        catalog.executescript("drop table held; pragma user_version = 2;")
    assert verify(tmp_path).is_sound
    with opened(tmp_path) as data:
        assert isinstance(data.append("/a", b"y", Stamp(b"p", 0, 0)), Duplicate)
        data.append("/a", b"z")
        data.checkpoint()
    with opened(tmp_path) as data:
        assert data.state()["/a"][0] == b"xyz"  # type: ignore[index]


def test_version_1_is_told_that_a_folder_is_newer(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/a")
    with tampered(tmp_path) as catalog:
        catalog.executescript(VERSION_1)
        with pytest.raises(sqlite3.OperationalError, match="written by a newer version of millstream"):
            catalog.execute("select value from facts where name = 'applied_lsn'")


def test_a_folder_of_a_later_version_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/a")
    with tampered(tmp_path) as catalog:
        catalog.execute(f"pragma user_version = {VERSION + 1}")
    with pytest.raises(StoreError, match="newer version of millstream"), opened(tmp_path):
        pass
    before = files_of(tmp_path)
    with pytest.raises(StoreError, match="newer version of millstream"):
        verify(tmp_path)
    with (
        pytest.raises(StoreError, match="newer version of millstream"),
        new_archive(tmp_path / "copy.tar") as archive,
    ):
        back_up(tmp_path, archive)
    assert files_of(tmp_path) == before


def test_a_checkpoint_writes_only_the_producers_that_changed(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/a")
        for number in range(10):
            data.append("/a", b"x", Stamp(b"%d" % number, 0, 0))
        data.checkpoint()
        data.append("/a", b"x", Stamp(b"3", 0, 1))
        entry = data.engine.streams.find("/a")
        assert entry is not None
        assert data.engine.streams.changed_producers == {entry.stream.id: {b"3"}}
        data.checkpoint()
        assert data.engine.streams.changed_producers == {}
        rows = data.engine.catalog.producers(entry.stream.id)
        assert rows[b"3"] == ProducerState(0, 1, rows[b"3"].used_ms)
        assert len(rows) == 10
        data.delete("/a")
        data.checkpoint()
        assert data.engine.catalog.producers(entry.stream.id) == {}
