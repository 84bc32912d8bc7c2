"""Arrival times that are damaged (X7): content is served without them, and only reads by time fail."""

from pathlib import Path

import pytest

from crash.folders import NOW_MS, OCTETS, Opened, opened
from millstream.protocol.origins import Since
from millstream.protocol.reads import Chunk
from millstream.protocol.requests import AppendRequest, ReadRequest
from millstream.store.log.files import layout
from millstream.store.log.tools.check import verify
from millstream.store.log.wal.segments import DamagedError

PIECE = 1024
COUNT = 40
PAGE = 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stream with files of its own, whose third page of times is damaged."""
    monkeypatch.setattr(layout, "PAGE_ENTRIES", PAGE)
    with opened(tmp_path) as data:
        data.create("/s")
        for number in range(COUNT):
            request = AppendRequest(b"%04d" % number * (PIECE // 4), OCTETS, False, None, None)
            data.wait(data.store.append("/s", request, NOW_MS + 10 * number))
    (path,) = tmp_path.glob("streams/*/*.times")
    times = bytearray(path.read_bytes())
    page_bytes = len(times) // (COUNT // PAGE)
    times[2 * page_bytes + 9] ^= 4
    path.write_bytes(times)
    return tmp_path


def read(data: Opened, **wishes: object) -> Chunk:
    return data.wait(data.store.read("/s", ReadRequest(**wishes), 100 * PIECE, NOW_MS))  # type: ignore[arg-type,no-any-return]


def test_content_is_served_without_the_times_that_are_damaged(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(folder) as data:
        whole = read(data)
        assert whole.data == b"".join(b"%04d" % number * (PIECE // 4) for number in range(COUNT))
        assert (whole.first_ms, whole.last_ms) == (NOW_MS, NOW_MS + 10 * (COUNT - 1))
        inside = read(data, offset=9 * PIECE, until=11 * PIECE)
        assert inside.data == whole.data[9 * PIECE : 11 * PIECE]
        assert (inside.first_ms, inside.last_ms) == (0, 0)
        assert ".times: the page at byte" in caplog.text
        beside = read(data, offset=4 * PIECE, until=6 * PIECE)
        assert (beside.first_ms, beside.last_ms) == (NOW_MS + 40, NOW_MS + 50)


def test_reads_by_time_fail(folder: Path) -> None:
    with opened(folder) as data:
        with pytest.raises(DamagedError):
            read(data, offset=9 * PIECE, times=True)
        with pytest.raises(DamagedError):
            read(data, origin=Since(NOW_MS + 90))
    assert any(".times: the page at byte" in complaint for complaint in verify(folder).complaints)
