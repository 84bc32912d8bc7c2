"""The scrub: what is saved is read again and again, and damage is found before a reader finds it."""

import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.folders import NOW_MS, OCTETS, Opened, opened
from crash.processes import Client, port_of, serving
from millstream.protocol.requests import AppendRequest, ReadRequest
from millstream.protocol.retention import Retention
from millstream.protocol.streams import StoreFailed
from millstream.store.log.tools.archives import new_archive
from millstream.store.log.tools.backup import back_up
from millstream.store.log.wal.segments import DamagedError
from millstream.store.measures import Measures

HOUR_MS = 3_600_000
LARGE = 3 * 2**20  # more than the steps of one second


def flip(path: Path, position: int) -> None:
    """Change one bit of a file, as a bad disk would."""
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


def measures(data: Opened) -> Measures:
    assert data.store.measures is not None
    return data.store.measures


def scrub(data: Opened, start_ms: int) -> None:
    """Let a whole round run."""
    rounds, now_ms = measures(data).scrub_rounds, start_ms

    async def expire() -> None:
        data.store.expire(now_ms)

    while measures(data).scrub_rounds == rounds:
        data.runner.run(expire())
        data.until(lambda: not data.engine.runtime.jobs)
        now_ms += 1_000
        assert now_ms < start_ms + HOUR_MS


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Opened]:
    with opened(tmp_path) as data:
        for number in range(300):
            data.create(f"/small/{number}", body=b"content of %d" % number)
        data.create("/large", body=bytes(range(256)) * (LARGE // 256))
        data.create("/other", body=b"x" * 100_000)
        data.stage("/large", "part", b"p" * 200_000)
        data.checkpoint()
        yield data


def content_files(folder: Path) -> list[Path]:
    """Files of content of their own, the largest first."""
    return sorted((folder / "streams").rglob("*.bin"), key=lambda path: -path.stat().st_size)


def test_what_is_whole_gets_no_complaint(data: Opened, caplog: pytest.LogCaptureFixture) -> None:
    scrub(data, NOW_MS)
    assert measures(data).scrub_rounds == 1
    assert measures(data).damaged_streams == 0
    assert measures(data).scrubbed_blocks > LARGE // 2**14 + 300
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_round_begins_an_hour_after_the_last_one(data: Opened) -> None:
    scrub(data, NOW_MS)
    blocks = measures(data).scrubbed_blocks
    for second in range(10):
        data.store.expire(NOW_MS + 60_000 + second * 1_000)
    assert measures(data).scrubbed_blocks == blocks
    scrub(data, NOW_MS + HOUR_MS)
    assert measures(data).scrub_rounds == 2


def test_a_bad_block_is_found_and_read_no_more(
    tmp_path: Path, data: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    entry = data.engine.streams.find("/large")
    assert entry is not None
    assert data.engine.streams.locate(entry, 0, 2**20) is not None  # verified: may be sent from the file
    flip(content_files(tmp_path)[0], 500_000)
    scrub(data, NOW_MS)
    assert measures(data).damaged_streams == 1
    assert re.search(r"\.bin: the block at byte 491520 is damaged\. \(/large\)", caplog.text)
    request = ReadRequest()
    with pytest.raises(DamagedError, match="the block at byte 491520 is damaged"):
        data.store.read("/large", request, 2**20, NOW_MS)
    assert data.wait(data.store.read("/other", request, 2**20, NOW_MS)).data == b"x" * 100_000
    assert data.append("/other", b"y").tail == 100_001


def test_a_bad_slot_a_bad_page_of_an_index_and_a_bad_part_are_found(
    tmp_path: Path, data: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    pack = next((tmp_path / "packs").iterdir())
    flip(pack, pack.read_bytes().index(b"content of 77"))
    flip(max((tmp_path / "streams").rglob("*.index"), key=lambda path: path.stat().st_mtime_ns), 3)
    flip(next((tmp_path / "parts").iterdir()), 150_000)
    scrub(data, NOW_MS)
    assert "(/small/77)" in caplog.text
    assert re.search(r"\.index: the page at byte 0 is damaged", caplog.text)
    assert re.search(r"\.part: the block at byte 131072 is damaged\. \(/large\)", caplog.text)


def test_a_stream_that_is_repaired_is_counted_no_more(tmp_path: Path, data: Opened) -> None:
    bad = content_files(tmp_path)[0]
    flip(bad, 7)
    scrub(data, NOW_MS)
    assert measures(data).damaged_streams == 1
    flip(bad, 7)
    scrub(data, NOW_MS + HOUR_MS)
    assert measures(data).damaged_streams == 0


def test_a_catalog_that_is_damaged_accepts_no_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as data:
        for number in range(2_000):
            data.create(f"/{number}", body=b"content")
    with opened(tmp_path) as data:  # the catalog's WAL is in its file, with checksums
        size = (tmp_path / "catalog.db").stat().st_size
        flip(tmp_path / "catalog.db", size // 2)
        scrub_until_refused(data)
        assert re.search(r"catalog\.db: page \d+ is damaged", caplog.text)
        request = AppendRequest(b"more", OCTETS, False, None, None)
        assert isinstance(data.wait(data.store.append("/7", request, NOW_MS)), StoreFailed)


def scrub_until_refused(data: Opened) -> None:
    for second in range(100):
        if data.engine.failure is not None:
            return

        async def expire(now_ms: int = NOW_MS + 1_000 * second) -> None:
            data.store.expire(now_ms)

        data.runner.run(expire())
        data.until(lambda: not data.engine.runtime.jobs)
    raise AssertionError("the damage was not found")


def test_checkpoints_and_trims_go_on_beside_it(tmp_path: Path) -> None:
    """No round may take for damage what a checkpoint changes or removes."""
    with opened(tmp_path) as data:
        data.create("/kept", body=b"k" * LARGE)
        for number in range(40):
            data.create(f"/{number}", body=b"x" * 30_000)
        data.create("/trimmed", retention=Retention(bytes=200_000))
        data.checkpoint()
        for second in range(60):
            now_ms = NOW_MS + second * 1_000
            data.append("/kept", b"+" * 50_000)
            data.append("/trimmed", b"-" * 90_000)
            data.append(f"/{second % 40}", b"more")
            if second % 3 == 0:
                data.delete(f"/{(second + 5) % 40}")
                data.create(f"/{(second + 5) % 40}", body=b"again" * 9_000)

            async def expire(now_ms: int = now_ms) -> None:
                data.store.expire(now_ms)

            data.runner.run(expire())
            if second % 2:  # otherwise the next changes come in the middle of it
                data.until(lambda: not data.engine.runtime.jobs)
        assert measures(data).scrubbed_blocks > 300
        assert measures(data).damaged_streams == 0
        assert data.engine.failure is None


def test_a_backup_of_what_is_damaged_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with opened(folder) as data:
        data.create("/large", body=b"x" * LARGE)
        data.create("/small", body=b"y")
        data.checkpoint()
    flip(content_files(folder)[0], 20_000)
    with (
        pytest.raises(Exception, match=r"the block at byte 16384 is damaged\. \(/large\)"),
        new_archive(tmp_path / "backup.tar") as archive,
    ):
        back_up(folder, archive)


def test_metrics_say_what_was_found(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with opened(folder) as data:
        data.create("/large", body=b"x" * 100_000)
        data.create("/small", body=b"y")
    flip(content_files(folder)[0], 20_000)
    with serving(folder) as server:
        client, found = Client(port_of(server)), b""
        for _ in range(200):
            answer = client.request("GET", "/__ds/metrics")
            assert answer is not None
            found = answer[2]
            if b"millstream_scrub_rounds_total 1.0" in found:
                break
            time.sleep(0.05)
        client.close()
        assert b"millstream_damaged_streams 1.0" in found
