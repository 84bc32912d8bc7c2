"""A full disk can be freed from inside: deletions, expiry and retention have room of their own."""

import asyncio
import errno
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from crash.folders import NOW_MS, OCTETS, Opened, opened
from crash.power import make_image, mounted, why_not
from crash.processes import Client, kill, port_of, serving
from crash.test_backlog import tick
from millstream.protocol.expiry import Lifetime
from millstream.protocol.lifecycle import Delete
from millstream.protocol.parts import Drop
from millstream.protocol.requests import AppendRequest
from millstream.protocol.streams import Append, NoSpace, NotFound
from millstream.store.log.disk import RealDisk, RealFile
from millstream.store.log.reserve import FIRST_CHECKPOINT_BYTES, NAME, SLACK_BYTES
from millstream.store.log.saving.guard import Guard
from millstream.store.pending import Pending
from running import Server, announced

RESERVE = 2**21
CONTENT = b"x" * 20_000  # too much for a pack: such streams have files of their own
LIMIT = 2**20


class FullDisk:
    """A disk whose only room is that of the reserve, once it is released."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self._reserve = folder / NAME
        real = RealFile.write

        def write(file: RealFile, pieces: Sequence[bytes], position: int) -> None:
            if self.is_full and self._reserve.stat().st_size:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(file, pieces, position)

        def free_bytes(_disk: RealDisk) -> int:
            return 0 if self.is_full else 2**40

        monkeypatch.setattr(RealFile, "write", write)
        monkeypatch.setattr(RealDisk, "free_bytes", free_bytes)


def test_what_removes_something_is_accepted_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(tmp_path, monkeypatch)
    with opened(tmp_path, reserve_bytes=RESERVE, max_unsaved_bytes=LIMIT) as data:
        assert (tmp_path / NAME).stat().st_size == RESERVE
        for name in ("/a", "/b"):
            data.create(name, body=CONTENT)
        data.create("/short", lifetime=Lifetime(ttl_s=60))
        data.stage("/a", "part", b"y")
        data.checkpoint()
        files = len(list(tmp_path.glob("streams/*/*.bin")))
        disk.is_full = True
        assert data.append("/a", b"more") == NoSpace()
        assert data.append("/a", b"more") == NoSpace()
        assert data.create("/c") == NoSpace()
        assert isinstance(data.delete("/b"), Delete)
        assert isinstance(data.drop_part("/a", "part"), Drop)
        tick(data, NOW_MS + 61_000)  # what has expired goes as well, and their files with the checkpoint
        tick(data, NOW_MS + 70_000)
        assert data.store.head("/short", NOW_MS) == NotFound("/short")
        assert len(list(tmp_path.glob("streams/*/*.bin"))) == files - 1
        assert data.append("/a", b"more") == NoSpace(), "there is no room for anything else"
        disk.is_full = False
        tick(data, NOW_MS + 80_000)
        assert isinstance(data.append("/a", b"more"), Append)
        assert (tmp_path / NAME).stat().st_size == RESERVE
        data.abandon()
    with opened(tmp_path, reserve_bytes=RESERVE, max_unsaved_bytes=LIMIT) as data:
        assert data.state().keys() == {"/a"}
        assert data.state()["/a"][0] == CONTENT + b"more"  # type: ignore[index]


def test_a_reserve_follows_its_setting_and_holds_a_checkpoint(tmp_path: Path) -> None:
    for size in (RESERVE, RESERVE // 2, RESERVE * 2):
        with opened(tmp_path, reserve_bytes=size, max_unsaved_bytes=60_000):
            found = (tmp_path / NAME).stat()
            assert found.st_size == max(size, 2 * 20_000 + SLACK_BYTES)
            assert found.st_blocks * 512 >= found.st_size, "it is room, not a number"
    with opened(tmp_path, reserve_bytes=0):
        assert not (tmp_path / NAME).exists()


PIECE = b"x" * 2**20


def settled(data: Opened) -> None:
    """Wait until everything is done that was begun."""
    data.until(lambda: not data.engine.runtime.jobs and not data.engine.checkpoints.under_way)


def test_a_new_folder_takes_little_room(tmp_path: Path) -> None:
    with opened(tmp_path, durable=True, reserve_bytes=4 * 2**20) as data:
        data.create("/a", body=b"x" * 1000)
        data.checkpoint()
        assert sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*")) < 16 * 2**20


def test_a_reserve_grows_with_what_waits_and_stays_as_large(tmp_path: Path) -> None:
    with opened(tmp_path, reserve_bytes=RESERVE) as data:
        first = (tmp_path / NAME).stat().st_size
        assert first == 2 * FIRST_CHECKPOINT_BYTES + SLACK_BYTES
        data.create("/a")
        data.append("/a", PIECE)
        settled(data)
        assert (tmp_path / NAME).stat().st_size == first
        other = Guard(tmp_path)  # such as a backup, so that everything waits
        other.wait()
        for number in range(2, 21):
            data.append("/a", PIECE)
            settled(data)
            assert data.engine.unsaved_bytes >= number * 2**20
            assert (tmp_path / NAME).stat().st_size >= min(data.engine.unsaved_bytes, 65 * 2**20)
        assert (tmp_path / NAME).stat().st_blocks * 512 >= 20 * 2**20, "it is room, not a number"
        other.release()
        other.close()
        grown = (tmp_path / NAME).stat().st_size
        data.abandon()
    with opened(tmp_path, reserve_bytes=RESERVE):
        assert (tmp_path / NAME).stat().st_size == grown


def test_a_reserve_grows_before_checkpoints_must_begin_earlier_than_they_should(tmp_path: Path) -> None:
    """Or a new server would take checkpoints at 4, 8 and 16 MiB, and each costs work for every stream."""
    with opened(tmp_path, reserve_bytes=RESERVE) as data:
        data.create("/a")
        for number in range(1, 31):
            data.append("/a", PIECE)
            settled(data)
            assert data.engine.unsaved_bytes >= number * 2**20
        data.append("/a", PIECE)
        data.append("/a", PIECE)
        settled(data)
        assert data.engine.unsaved_bytes < 2 * 2**20, "one was due at 32 MiB"


def test_no_more_waits_than_the_reserve_has_room_for_when_it_cannot_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may become full at any moment, also at the last one before the reserve would have grown."""
    with opened(tmp_path, reserve_bytes=RESERVE) as data:
        monkeypatch.setattr(RealDisk, "free_bytes", lambda _disk: 2 * 2**20)
        first = (tmp_path / NAME).stat().st_size
        data.create("/a")
        for _ in range(40):
            data.append("/a", PIECE)
            assert data.engine.unsaved_bytes <= first
        settled(data)
        assert (tmp_path / NAME).stat().st_size == first
        monkeypatch.undo()
        for _ in range(10):
            data.append("/a", PIECE)
        settled(data)
        assert (tmp_path / NAME).stat().st_size > first, "there is room for more of it again"


def test_a_reserve_that_grows_while_the_disk_becomes_full_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(tmp_path, monkeypatch)
    real = RealFile.allocate
    growing, full = threading.Event(), threading.Event()

    def allocate(file: RealFile, start: int, end: int) -> bool:
        growing.set()
        assert full.wait(60)
        return real(file, start, end)

    with opened(tmp_path, reserve_bytes=RESERVE) as data:
        data.create("/a")
        data.create("/b", body=b"x")
        monkeypatch.setattr(RealFile, "allocate", allocate)
        while not growing.is_set():
            data.append("/a", PIECE)
            data.runner.run(asyncio.sleep(0.01))
        disk.is_full = True
        request = AppendRequest(b"more", OCTETS, False, None, None)
        refused = data.store.append("/a", request, NOW_MS)
        assert isinstance(refused, Pending)
        data.until(lambda: data.engine.failure is not None)
        full.set()
        assert data.wait(refused) == NoSpace()
        settled(data)
        assert (tmp_path / NAME).stat().st_size == 0
        assert isinstance(data.delete("/b"), Delete)


def test_a_reserve_that_is_used_up_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = RealFile.write
    is_full = False

    def write(file: RealFile, pieces: Sequence[bytes], position: int) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, pieces, position)

    monkeypatch.setattr(RealFile, "write", write)
    with opened(tmp_path, reserve_bytes=RESERVE, max_unsaved_bytes=LIMIT) as data:
        data.create("/a", body=b"x")
        is_full = True
        assert data.append("/a", b"y") == NoSpace()
        assert data.delete("/a") == NoSpace(), "not even the reserve was enough"
        assert data.delete("/a") == NoSpace()
        is_full = False
        tick(data, NOW_MS + 2_000)
        request = AppendRequest(b"y", OCTETS, False, None, None)
        assert isinstance(data.wait(data.store.append("/a", request, NOW_MS)), Append)
        assert isinstance(data.delete("/a"), Delete)


@pytest.mark.skipif(why_not("ext4") is not None, reason=why_not("ext4") or "")
def test_a_full_file_system_is_freed_by_deletions(tmp_path: Path) -> None:
    image = tmp_path / "small.img"
    make_image(image, "ext4", "96M")  # more than the log holds before a checkpoint
    body = b"x" * 400_000
    with mounted(image, "loop") as folder:
        with serving(folder / "data", options=["--disk-reserve-bytes", "1000000"]) as server:
            client = Client(port_of(server))
            count, status = 0, 201
            while status == 201:
                count += 1
                status = client.request("PUT", f"/{count}", body)[0]  # type: ignore[index]
            assert status == 507
            deleted = [client.request("DELETE", f"/{number}")[0] for number in range(1, count // 2)]  # type: ignore[index]
            assert set(deleted) == {204}, deleted
            give_up_s = time.monotonic() + 60
            while client.request("PUT", "/again", body)[0] == 507:  # type: ignore[index]
                assert time.monotonic() < give_up_s, server.output()
                time.sleep(0.2)
            assert client.read_all(f"/{count - 1}") == (200, body, False)
            client.close()
            assert server.stop() == 0, server.output()
        with serving(folder / "data") as server:
            client = Client(port_of(server))
            assert client.read_all(f"/{count - 1}") == (200, body, False)
            assert client.read_all("/again") == (200, body, False)
            assert client.request("GET", "/1")[0] == 404  # type: ignore[index]
            client.close()
    image.unlink()


@contextmanager
def small_disk(folder: Path, kind: str) -> Iterator[Path]:
    """A file system of 24 MB, smaller than one segment of the log is elsewhere."""
    if kind == "tmpfs":
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], check=True)
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", folder], check=True)
    else:
        image = folder.with_suffix(".img")
        make_image(image, kind, "24M")
        with mounted(image, "loop") as mount:
            yield mount


@pytest.mark.skipif(why_not("ext4") is not None, reason=why_not("ext4") or "")
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_small_disk_can_be_freed_again_and_again(tmp_path: Path, kind: str) -> None:
    body = b"x" * 200_000
    command = [sys.executable, "-m", "millstream", "serve", "--host", "127.0.0.1", "--port", "0", "--data"]
    kept: list[int] = []
    with small_disk(tmp_path / "small", kind) as folder:
        reserve = folder / "data" / NAME
        number, first_reserve = 0, 0
        for life, rounds in enumerate((2, 1, 1)):  # stopped, then killed
            server = Server([*command, str(folder / "data")], {})
            try:
                announced(server)
                first_reserve = first_reserve or reserve.stat().st_size
                client = Client(port_of(server))
                for _ in range(rounds):
                    while (status := _put(client, server, number, body)) == 201:
                        kept.append(number)
                        number += 1
                    assert status == 507
                    gone, kept = kept[: len(kept) // 2], kept[len(kept) // 2 :]
                    assert {client.request("DELETE", f"/{one}")[0] for one in gone} == {204}  # type: ignore[index]
                    give_up_s = time.monotonic() + 60
                    while _put(client, server, number, body) == 507:
                        assert time.monotonic() < give_up_s, server.output()
                        time.sleep(0.2)
                    kept.append(number)
                    number += 1
                    assert reserve.stat().st_size == first_reserve, "it is whole again"
                assert all(client.read_all(f"/{one}") == (200, body, False) for one in kept), life
                client.close()
                if life:
                    kill(server)
            finally:
                server.stop()


def _put(client: Client, server: Server, number: int, body: bytes) -> int:
    answer = client.request("PUT", f"/{number}", body)
    assert answer is not None, (client.lost, server.exit_code, server.output())
    return answer[0]


def test_a_reserve_does_not_grow_with_every_change(tmp_path: Path) -> None:
    """What is wanted rises with the number of streams that have changed; growing is a sync of the disk."""
    with opened(tmp_path, reserve_bytes=RESERVE) as data:
        reserve, grown = data.engine.reserve, 0
        for mib in range(1, 121):
            while reserve.must_grow(mib * 2**20, mib * 2**20 + 1):
                grown += 1
                reserve.grow()
        assert grown <= 16
        assert reserve.checkpoint_bytes >= 100 * 2**20
