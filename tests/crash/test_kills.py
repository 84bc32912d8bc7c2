"""A server is killed, at any time and at the worst times; nothing that it said turns out untrue."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crash.format_3 import make_former
from crash.kills import kill_loop
from crash.ledger import Ledger
from crash.processes import free_port, serving, start
from millstream.store.log import failpoints
from millstream.store.log.tools.check import verify
from running import announced
from wire.raw_connection import Wire

KILLS = int(os.environ.get("MILLSTREAM_KILLS", "8"))


@pytest.mark.timeout(60 + 2 * KILLS)
def test_nothing_is_lost_or_doubled_by_kills(tmp_path: Path) -> None:
    print(kill_loop(tmp_path, KILLS))
    assert verify(tmp_path).is_sound


@pytest.mark.parametrize("failpoint", [name for name in failpoints.NAMES if not name.startswith("delivery")])
def test_a_kill_at_a_failpoint(tmp_path: Path, failpoint: str) -> None:
    port = free_port()
    count = (
        1
        if failpoint.startswith(("rec", "writing.conv", "writing.rew"))
        else 20
        if failpoint.startswith("log")
        else 2
    )
    with Ledger(port) as ledger:
        if failpoint.startswith("recovery"):
            with serving(tmp_path, port) as server:
                server.wait_until(lambda: ledger.workers[0].acknowledged > 20)
                server._process.kill()
                server._process.wait()
        elif failpoint == "writing.converted":
            with serving(tmp_path, port) as server:
                server.wait_until(lambda: ledger.workers[0].acknowledged > 20)
            make_former(tmp_path)
        elif failpoint == "writing.rewritten":
            with serving(tmp_path, port) as server, Wire(server.url) as wire:
                wire.ask("PUT", "/rewritten", b"x" * 2**17, Content_Type="text/plain")
                wire.ask("POST", "/rewritten", b"kept")
        server = start(tmp_path, port, environment={"MILLSTREAM_FAILPOINT": f"{failpoint}:{count}"})
        try:
            if failpoint == "writing.rewritten":
                announced(server)
                with Wire(server.url) as wire:
                    assert wire.ask("PATCH", "/rewritten", Stream_Retain_Bytes="4").status == 204
            assert server._process.wait(60) == -9, server.output()
        finally:
            server.stop()
        with serving(tmp_path, port) as server:
            ledger.stop()
            wrong = ledger.verify()
            if failpoint == "writing.rewritten":
                with Wire(server.url) as wire:
                    assert wire.ask("GET", "/rewritten").body[-4:] == b"kept"
    assert not wrong, wrong
    assert verify(tmp_path).is_sound


def test_a_second_server_on_the_same_folder_says_why_and_leaves(tmp_path: Path) -> None:
    with serving(tmp_path):
        second = start(tmp_path)
        assert second._process.wait(60) in (1, 2)
        second.stop()
        lines = [line for line in second.output().splitlines() if line]
        assert lines == [f"millstream serve: {tmp_path} is in use by another server."]


def test_a_damaged_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    with serving(tmp_path):
        pass
    segment = next((tmp_path / "wal").glob("*.wal"))
    data = bytearray(segment.read_bytes())
    data[9] ^= 1
    segment.write_bytes(data)
    server = start(tmp_path)
    assert server._process.wait(60) == 1
    server.stop()
    (line,) = [line for line in server.output().splitlines() if line]
    assert f"wal/{segment.name}: damaged at byte 0" in line


def test_the_check_command_tells_sound_from_damaged(tmp_path: Path) -> None:
    def check(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "millstream", "check", str(tmp_path), "-o", "text", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    port = free_port()
    with serving(tmp_path, port) as server, Ledger(port) as ledger:
        server.wait_until(lambda: ledger.workers[0].acknowledged > 5)
        assert check().returncode == 1  # in use
        ledger.stop()
    found = check()
    assert (found.returncode, "is sound" in found.stdout) == (0, True), found
    segment = max((tmp_path / "wal").glob("*.wal"))
    header = segment.read_bytes()[:32]  # all that a clean stop leaves of the log
    segment.write_bytes(header[:20] + bytes([header[20] ^ 1]) + header[21:])
    found = check()
    assert (found.returncode, "is damaged" in found.stdout) == (1, True), found
