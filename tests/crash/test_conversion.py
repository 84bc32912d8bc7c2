"""Folders of format 3 open, answer the same, and are written anew by checkpoints (format 4)."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from crash.folders import NOW_MS, Opened, files_of, opened
from crash.format_3 import make_former
from crash.test_backlog import tick
from millstream.protocol.producers import Stamp
from millstream.protocol.requests import ReadRequest
from millstream.protocol.retention import Retention
from millstream.protocol.streams import Append, Duplicate
from millstream.store.log.cache.stream_cache import content_of
from millstream.store.log.files import layout
from millstream.store.log.files.places import Filed, Former, Packed
from millstream.store.log.tools.check import verify
from millstream.store.log.tools.convert import convert

LIMITED = Retention(bytes=4 * layout.LEAST_BYTES)


@pytest.fixture
def former(tmp_path: Path) -> tuple[Path, dict[str, object]]:
    """A folder of format 3, and what its streams hold."""
    with opened(tmp_path) as data:
        data.create("/empty")
        data.create("/small", body=b"one")
        data.append("/small", b"two", Stamp(b"p", 0, 0))
        data.create("/large", body=b"x" * 40_000)
        for number in range(600):
            data.append("/large", b"%d," % number)
        data.create("/fork", forked_from="/large")
        data.append("/fork", b"of its own")
        data.create("/trimmed", retention=LIMITED)
        for number in range(40):
            data.append("/trimmed", b"%d" % number + b"y" * 10_000)
            tick(data, NOW_MS + number)
        state = data.state()
    make_former(tmp_path)
    return tmp_path, state


def places(data: Opened, names: Iterable[str] = ()) -> dict[str, type]:
    found = {name: data.engine.streams.find(name) for name in names or data.state()}
    return {name: type(content_of(entry).place) for name, entry in found.items() if entry is not None}


def test_it_answers_as_before(former: tuple[Path, dict[str, object]]) -> None:
    folder, state = former
    assert verify(folder).is_sound
    with opened(folder) as data:
        assert data.state() == state
        assert set(places(data).values()) == {Former}
        assert isinstance(data.append("/small", b"two", Stamp(b"p", 0, 0)), Duplicate)


def test_a_stream_that_is_written_to_is_converted(former: tuple[Path, dict[str, object]]) -> None:
    folder, state = former
    with opened(folder) as data:
        for name in ("/small", "/large", "/fork", "/trimmed", "/empty"):
            assert isinstance(data.append(name, b"more"), Append)
        data.checkpoint()
        grown = data.state()
        data.abandon()
    assert grown["/large"][0] == state["/large"][0] + b"more"  # type: ignore[index]
    assert verify(folder).is_sound
    with opened(folder) as data:
        assert data.state() == grown
        assert places(data) == {
            "/empty": Packed,
            "/small": Packed,
            "/large": Filed,
            "/fork": Packed,
            "/trimmed": Filed,
        }
        data.create("/new")
        data.checkpoint()
        assert not [name for name in files_of(folder) if name.endswith(".idx")]


def test_a_stream_that_nobody_touches_is_converted_in_the_background(
    former: tuple[Path, dict[str, object]],
) -> None:
    folder, state = former
    with opened(folder) as data:
        for number in range(4):
            tick(data, NOW_MS + 10_000 * number)
        assert Former not in places(data).values()
        assert not [name for name in files_of(folder) if name.endswith(".idx")]
        data.abandon()
    assert verify(folder).is_sound
    with opened(folder) as data:
        assert data.state() == state


def test_all_at_once(former: tuple[Path, dict[str, object]]) -> None:
    folder, state = former
    told: list[int] = []
    assert convert(folder, told.append) == 5
    assert told == [5]
    assert convert(folder, told.append) == 0
    assert verify(folder).is_sound
    assert not [name for name in files_of(folder) if name.endswith(".idx")]
    with opened(folder) as data:
        assert data.state() == state


def test_damage_of_a_former_stream_stops_no_other(former: tuple[Path, dict[str, object]]) -> None:
    folder, _ = former
    (folder / layout.Layout(layout.ONE_FILE).former_index_name(3)).unlink()  # that of /large
    assert convert(folder, lambda _: None) == 5
    with opened(folder) as data:
        assert data.store.read("/small", ReadRequest(), 100, NOW_MS).data == b"onetwo"  # type: ignore[union-attr]
        assert places(data, ["/small", "/large"]) == {"/small": Packed, "/large": Former}
