"""Data folders that earlier versions wrote: they open, and answer as they did then."""

import random
from itertools import chain
from pathlib import Path

import pytest

from crash.conversion import Conversion, compare, conversion, is_same
from crash.old_folders import CONVERTED, FORMATS, OldFolder, multiply, unpack
from damage.asking import application, ask_all
from millstream.store.log.tools.check import verify

STOPPED, KILLED, SAVED = range(3)


@pytest.fixture(params=FORMATS, ids=lambda format: f"format {format}")
def folders(request: pytest.FixtureRequest, tmp_path: Path) -> list[OldFolder]:
    return unpack(request.param, tmp_path)


@pytest.fixture
def converted(tmp_path: Path) -> OldFolder:
    """A folder whose content is written anew."""
    return unpack(CONVERTED, tmp_path)[STOPPED]


@pytest.mark.parametrize("number", [STOPPED, KILLED, SAVED], ids=["stopped", "killed", "saved"])
def test_a_folder_of_an_earlier_version_answers_the_same(folders: list[OldFolder], number: int) -> None:
    folder = folders[number]
    report = verify(folder.path)
    assert report.is_sound, report.complaints
    for _ in range(2):
        with application(folder.path, folder.written_ms) as asker:
            assert compare(asker, folder) == []
    with application(folder.path, folder.written_ms) as asker:
        found = ask_all(asker, folder.groups)  # appends, forks, commits of parts
    for right, answer in zip(chain(*folder.answers), chain(*found), strict=True):
        assert is_same(right, answer), (right, answer)
    for _ in range(2):
        with application(folder.path, folder.written_ms) as asker:
            assert compare(asker, folder, lasting=True) == []
    report = verify(folder.path)
    assert report.is_sound, report.complaints


def test_the_larger_folders_for_kills_are_right(converted: OldFolder) -> None:
    parts = multiply(converted, 2)
    report = verify(converted.path)
    assert report.is_sound, report.complaints
    with application(converted.path, converted.written_ms) as asker:
        for part in parts:
            assert compare(asker, part) == []


def test_a_folder_that_lost_an_append_is_noticed(converted: OldFolder) -> None:
    """Otherwise the kills would prove little."""
    parts = multiply(converted, 1)
    content = max(converted.path.glob("streams/*/*.bin"), key=lambda path: path.stat().st_mtime_ns)
    content.write_bytes(content.read_bytes()[:-10] + b"0123456789")
    with application(converted.path, converted.written_ms) as asker:
        assert any(compare(asker, part) for part in parts)


def test_kills_while_a_folder_is_converted(tmp_path: Path) -> None:
    assert "3 kills" in conversion(tmp_path, 3)


def test_the_kills_append(converted: OldFolder) -> None:
    assert len(Conversion(converted, random.Random(1)).written) > 30
