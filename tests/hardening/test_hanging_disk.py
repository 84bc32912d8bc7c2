"""A disk that hangs: whatever it does, health and reads of what is in memory are answered."""

import shutil
import time
from pathlib import Path

import pytest

from crash.processes import serving
from crash.test_faults import strace
from hardening.bystander import Bystander
from wire.raw_connection import Wire

HANG_S = 3.0


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_sync_that_hangs_holds_up_only_what_waits_for_it(tmp_path: Path) -> None:
    hang = ["-e", "trace=fdatasync", "-e", f"inject=fdatasync:delay_enter={HANG_S * 1e6:.0f}:when=20+"]
    with serving(tmp_path / "data", prefix=strace(tmp_path / "trace", *hang)) as server:
        with Wire(server.url) as writer, Bystander(server.url, appends=False) as bystander:
            assert writer.ask("PUT", "/s", b"").status == 201
            slowest_s = 0.0
            for _ in range(40):
                began_s = time.monotonic()
                assert writer.ask("POST", "/s", b"x").status == 204
                slowest_s = max(slowest_s, time.monotonic() - began_s)
                if slowest_s >= HANG_S:
                    break
            assert slowest_s >= HANG_S, "no sync has hung"
        assert bystander.worst_s < HANG_S / 2
        assert server.stop() == 0
