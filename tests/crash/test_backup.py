"""Backups of a folder that a server is writing to: a prefix of what it has, sound, and good to go on with."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from millstream.protocol.parts import Commit, Stage
from millstream.protocol.producers import Stamp
from millstream.protocol.reads import OffsetGone
from millstream.protocol.retention import Retention
from millstream.protocol.streams import Duplicate
from millstream.store.base import StoreError
from millstream.store.log.files.layout import LEAST_BYTES
from millstream.store.log.saving.guard import LINKS, Guard
from millstream.store.log.tools import backup
from millstream.store.log.tools.archives import new_archive
from millstream.store.log.tools.backup import back_up, link, restore
from millstream.store.log.tools.check import verify

from .folders import NOW_MS, Opened, opened
from .ledger import Appender, Founder, Ledger, Producer
from .processes import Client, free_port, port_of, serving
from .test_trimming import KEPT, LIMITED, PIECE, grow, read, room

BACKUPS = 3


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "millstream", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def done(*arguments: object) -> str:
    ran = run(*arguments, "--output", "text")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_backup_under_load_is_a_prefix_and_producers_go_on(tmp_path: Path) -> None:
    """What was acknowledged before it began is there; nothing is doubled, torn, or from nowhere."""
    folder, port = tmp_path / "data", free_port()
    ledger = Ledger(port)
    with serving(folder, port), ledger:
        time.sleep(0.5)
        for number in range(BACKUPS):
            kind = (".tar", ".tar.gz", "")[number % 3]
            copy, restored = tmp_path / f"copy-{number}{kind}", tmp_path / f"restored-{number}"
            before = ledger.snapshot()
            if number == 0:
                assert "up to record" in done("backup", folder, "--to", copy)
            else:
                with new_archive(copy) as archive:
                    back_up(folder, archive)
            after = ledger.snapshot()
            assert restore(copy, restored).is_sound
            if number == 0:
                assert "is sound" in done("check", restored)
            with serving(restored) as recovered:
                client = Client(port_of(recovered))
                for one, later in zip(before.workers, after.workers, strict=True):
                    if isinstance(one, Producer) and isinstance(later, Producer):
                        _check_and_continue(client, one, later)
                    elif isinstance(one, Appender):
                        assert one.verify(client) == []
                client.close()
            assert not (folder / LINKS).exists()
    assert any(worker.fates for worker in ledger.workers if isinstance(worker, Founder))
    assert ledger.workers[0].acknowledged > BACKUPS * 5  # type: ignore[attr-defined]


def _check_and_continue(client: Client, before: Producer, after: Producer) -> None:
    status, data, _ = client.read_all(before.name)
    assert status == 200
    lines = data.split(b"\n")[:-1]
    assert lines == [b"%08d" % number for number in range(len(lines))]
    assert before.acknowledged <= len(lines) <= after.acknowledged + 1
    for seq, expected in ((len(lines) - 1, 204), (len(lines), 200)):  # what it has is not taken twice
        stamp = {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(seq)}
        answer = client.request("POST", before.name, b"%08d\n" % seq, stamp)
        assert answer is not None
        assert answer[0] == expected
    assert client.read_all(before.name)[1] == data + b"%08d\n" % len(lines)


def test_a_backup_of_a_folder_that_nobody_serves(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as folder:
        folder.create("/a")
        folder.append("/a", b"saved", Stamp(b"p", 0, 0))
        folder.checkpoint()
        folder.append("/a", b" and logged", Stamp(b"p", 0, 1))
        folder.create("/b")
        folder.append("/b", b"closed", closes=True)
        expected = folder.state()
        folder.abandon()
    with new_archive(tmp_path / "copy.tar") as archive:
        copied = back_up(tmp_path / "data", archive)
    assert copied.last_lsn == 5
    restore(tmp_path / "copy.tar", tmp_path / "restored")
    with opened(tmp_path / "restored") as folder:
        assert folder.state() == expected
        assert isinstance(folder.append("/a", b" and logged", Stamp(b"p", 0, 1)), Duplicate)
    with opened(tmp_path / "data") as folder:
        assert folder.state() == expected


def test_what_a_stream_let_go_of_stays_gone_and_staged_parts_stay_staged(tmp_path: Path) -> None:
    """Rules X3, X4: removed chunk files, some that a fork holds on to, parts in files and in the log."""
    with opened(tmp_path / "data") as folder:
        folder.create("/old", retention=LIMITED)
        folder.append("/old", bytes(PIECE))
        folder.create("/fork", forked_from="/old", retention=Retention(bytes=2**40))
        folder.create("/trimmed", retention=LIMITED)
        grow(folder, "/old", 60)
        grow(folder, "/trimmed", 60)
        folder.create("/parts")
        folder.append("/parts", b"visible, ")
        assert isinstance(folder.stage("/parts", "1", b"staged, "), Stage)
        folder.checkpoint()
        assert isinstance(folder.stage("/parts", "2", b"staged in the log"), Stage)
        starts = starts_of(folder)
        assert starts["/trimmed"] > LEAST_BYTES, "whole files are gone"
        assert starts["/fork"] == 0
        expected = folder.state()
        done("backup", tmp_path / "data", "--to", tmp_path / "copy.tar")
        assert folder.state() == expected
        grow(folder, "/trimmed", 60)  # and what was linked for the backup goes, too
        assert room(tmp_path / "data") < 6 * KEPT
    done("restore", tmp_path / "copy.tar", "--to", tmp_path / "restored")
    assert "is sound" in done("check", tmp_path / "restored")
    with opened(tmp_path / "restored") as folder:
        assert folder.state() == expected
        assert starts_of(folder) == starts
        assert isinstance(read(folder, "/trimmed", 0), OffsetGone)
        assert isinstance(folder.commit("/parts", "1", "2"), Commit)
        assert read(folder, "/parts").data == b"visible, staged, staged in the log"
        grow(folder, "/trimmed", 20)
        assert starts_of(folder)["/trimmed"] > starts["/trimmed"]
    assert verify(tmp_path / "restored").is_sound


def starts_of(folder: Opened) -> dict[str, int]:
    return {stream.name: stream.start for stream in folder.store.listing("", None, "", 1000, 0).streams}


def test_files_of_any_kind_are_copied(tmp_path: Path) -> None:
    """A later engine may keep more than this one does."""
    with opened(tmp_path / "data") as folder:
        folder.create("/a")
    (tmp_path / "data/parts/7").mkdir(parents=True)
    (tmp_path / "data/parts/7/x.part").write_bytes(b"staged")
    with new_archive(tmp_path / "copy") as archive:
        back_up(tmp_path / "data", archive)
    assert (tmp_path / "copy/parts/7/x.part").read_bytes() == b"staged"
    assert (tmp_path / "copy/parts/7/x.part").stat().st_nlink == 1  # not the server's own file


def test_a_checkpoint_waits_for_a_backup_and_appends_do_not(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as folder:
        folder.create("/a")
        copier = Guard(tmp_path / "data")
        copier.wait()
        later_ms = NOW_MS + 60_000
        folder.store.expire(later_ms)
        assert not folder.engine.checkpoints.under_way
        folder.append("/a", b"taken all the same")
        copier.release()
        copier.close()

        async def tick() -> None:
            folder.store.expire(later_ms)

        folder.runner.run(tick())
        assert folder.engine.checkpoints.under_way
        second = Guard(tmp_path / "data")
        assert not second.take()  # and now it is the backup that has to wait
        folder.until(lambda: not folder.engine.checkpoints.under_way)
        assert second.take()
        second.close()


@pytest.mark.parametrize("moment", ["after the first links", "before the log", "before the last links"])
def test_a_checkpoint_that_is_due_in_the_middle_of_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It would recycle the log that the copy of the catalog needs, and remove files that it names."""
    with opened(tmp_path / "data", segment_bytes=1000) as folder:
        folder.create("/deleted")
        folder.append("/deleted", bytes(1000))
        folder.checkpoint()
        folder.create("/kept")
        expected = folder.state()
        passed = []

        async def tick() -> None:
            folder.store.expire(NOW_MS + 60_000)

        def reach(place: str) -> None:
            passed.append(place)
            if place == moment:
                folder.delete("/deleted")
                for _ in range(5):
                    folder.append("/kept", bytes(1000))
                folder.runner.run(tick())
                folder.until(lambda: not folder.engine.checkpoints.under_way)
                folder.runner.run(asyncio.sleep(0.05))  # old segments are released after that

        def linking(*arguments: Any) -> None:
            if passed:
                reach("before the last links")
            link_all(*arguments)
            if not passed:
                reach("after the first links")

        def copying_log(*arguments: Any) -> int:
            reach("before the log")
            return copy_log(*arguments)

        link_all, copy_log = backup._link_all, backup._copy_log
        monkeypatch.setattr(backup, "_link_all", linking)
        monkeypatch.setattr(backup, "_copy_log", copying_log)
        with new_archive(tmp_path / "copy") as archive:
            back_up(tmp_path / "data", archive)
        latest = folder.state()
    assert passed == ["after the first links", "before the log", "before the last links"]
    restore(tmp_path / "copy", tmp_path / "restored")
    with opened(tmp_path / "restored") as folder:
        assert folder.state() == (expected if moment == "before the last links" else latest)


def test_links_follow_files_that_come_go_and_are_replaced(tmp_path: Path) -> None:
    data, links = tmp_path / "data", tmp_path / "links"
    for name in ("a/1", "a/2", "b/3", "top", "skipped/4"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(name)
    link(data, links, ("skipped",))
    (data / "a/1").unlink()
    (data / "a/2").unlink()
    (data / "a/2").write_text("another file")
    (data / "b/3").unlink()
    (data / "b").rmdir()
    (data / "b").write_text("a file now")
    (data / "c").mkdir()
    (data / "c/5").write_text("new")
    link(data, links, ("skipped",))
    found = {str(path.relative_to(links)): path.read_text() for path in links.rglob("*") if path.is_file()}
    assert found == {"a/2": "another file", "b": "a file now", "c/5": "new", "top": "top"}


def test_a_backup_waits_for_a_checkpoint(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as folder:
        folder.create("/a")
        guard = Guard(tmp_path / "data")
        assert guard.take()
        command = [sys.executable, "-m", "millstream", "backup", str(tmp_path / "data")]
        with subprocess.Popen(
            [*command, "--to", str(tmp_path / "copy")], stdout=subprocess.DEVNULL
        ) as process:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(2)
            guard.release()
            assert process.wait(60) == 0
        guard.close()


def test_what_a_killed_backup_left_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as folder:
        folder.create("/a")
    left = tmp_path / "data" / LINKS / "streams" / "00"
    left.mkdir(parents=True)
    (left / "x.bin").touch()
    with opened(tmp_path / "data"):
        assert not (tmp_path / "data" / LINKS).exists()
    left.mkdir(parents=True)
    with new_archive(tmp_path / "copy") as archive:
        back_up(tmp_path / "data", archive)
    assert not (tmp_path / "data" / LINKS).exists()
    assert not (tmp_path / "copy/streams").exists()


def test_a_killed_backup_leaves_nothing_under_its_name(tmp_path: Path) -> None:
    """An archive that is there is whole."""
    with opened(tmp_path / "data") as folder:
        folder.create("/a")
        folder.append("/a", bytes(2**20))
    fifo = tmp_path / "data" / "endless"
    os.mkfifo(fifo)  # copying it takes for ever
    command = [
        sys.executable,
        "-m",
        "millstream",
        "backup",
        str(tmp_path / "data"),
        "--to",
        str(tmp_path / "c.tar"),
    ]
    with subprocess.Popen(command) as process:
        deadline_s = time.monotonic() + 60
        while not (tmp_path / "c.tar.partial").exists() or not (tmp_path / "data" / LINKS).exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        with opened(tmp_path / "data"):  # a server that starts leaves a running backup alone
            assert (tmp_path / "data" / LINKS).exists()
        with pytest.raises(StoreError, match="another backup"), new_archive(tmp_path / "d.tar") as archive:
            back_up(tmp_path / "data", archive)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "c.tar").exists()
    assert not (tmp_path / "d.tar").exists()
    fifo.unlink()
    assert (
        "c.tar.partial is in the way" in run("backup", tmp_path / "data", "--to", tmp_path / "c.tar").stderr
    )
    assert "up to record" in done("backup", tmp_path / "data", "--to", tmp_path / "e.tar")


def test_damage_is_not_backed_up_as_if_it_were_the_end(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as folder:
        folder.create("/a")
        for number in range(10):
            folder.append("/a", b"%d" % number * 100)
        folder.abandon()
    [segment] = (tmp_path / "data/wal").glob("*.wal")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    ran = run("backup", tmp_path / "data", "--to", tmp_path / "copy")
    assert ran.returncode == 1
    [line] = ran.stderr.splitlines()
    assert segment.name in line
    assert "damaged" in line
    assert not (tmp_path / "copy").exists()


# -- Wrong input -----------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    with opened(tmp_path / "data") as folder:
        folder.create("/a")
        folder.append("/a", bytes(5000))
        folder.checkpoint()
    done("backup", tmp_path / "data", "--to", tmp_path / "copy.tar")
    return tmp_path / "copy.tar"


def failed(*arguments: object) -> str:
    ran = run(*arguments)
    assert ran.returncode == 1
    [line] = ran.stderr.splitlines()
    return line


def test_nothing_is_overwritten(tmp_path: Path, copy: Path) -> None:
    assert "exists already" in failed("backup", tmp_path / "data", "--to", copy)
    assert "exists already" in failed("restore", copy, "--to", tmp_path / "data")
    (tmp_path / "empty").mkdir()
    assert "is sound" in done("restore", copy, "--to", tmp_path / "empty")


def test_what_is_no_data_folder_or_no_backup_is_one_line(tmp_path: Path, copy: Path) -> None:
    assert "is not a data folder" in failed("backup", tmp_path / "nowhere", "--to", tmp_path / "x")
    assert "does not exist" in failed("restore", tmp_path / "nowhere.tar", "--to", tmp_path / "x")
    (tmp_path / "text.tar").write_text("hello")
    assert "cannot be read" in failed("restore", tmp_path / "text.tar", "--to", tmp_path / "x")
    (tmp_path / "cut.tar").write_bytes(copy.read_bytes()[:9000])
    failed("restore", tmp_path / "cut.tar", "--to", tmp_path / "x")
    (tmp_path / "folder").mkdir()
    assert "is not a data folder" in failed("restore", tmp_path / "folder", "--to", tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "a/../../escaped"])
def test_an_archive_cannot_write_elsewhere(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    assert "has no place in a backup" in failed("restore", tmp_path / "evil.tar", "--to", tmp_path / "x")
    assert not (tmp_path / "escaped").exists()


def test_a_link_has_no_place_in_a_backup(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        entry = tarfile.TarInfo("streams")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(entry)
    assert "has no place in a backup" in failed("restore", tmp_path / "evil.tar", "--to", tmp_path / "x")


@pytest.mark.skipif(shutil.which("tar") is None, reason="tar is not installed")
def test_tar_reads_an_archive(copy: Path) -> None:
    listed = subprocess.run(["tar", "tf", copy], capture_output=True, text=True, check=True).stdout.split()
    assert "catalog.db" in listed
    assert "LOCK" in listed
