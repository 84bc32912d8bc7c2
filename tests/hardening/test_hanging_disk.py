"""A disk that hangs: whatever it does, health and reads of what is in memory are answered."""

import shutil
import signal
import time
from pathlib import Path

import pytest

from crash.processes import serving
from crash.test_faults import strace
from hardening.bystander import Bystander
from wire.raw_connection import Wire

HANG_S = 3.0
OTHERS = 5
"""How many others are answered while a sync hangs, at least; one or two may be before and after it."""


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def hanging(seconds: float, after: int) -> list[str]:
    """Let the syncs of each thread hang, after some that do not."""
    return ["-e", "trace=fdatasync", "-e", f"inject=fdatasync:delay_enter={seconds * 1e6:.0f}:when={after}+"]


@needs_strace
def test_a_sync_that_hangs_holds_up_only_what_waits_for_it(tmp_path: Path) -> None:
    hang = hanging(HANG_S, after=20)
    with serving(tmp_path / "data", prefix=strace(tmp_path / "trace", *hang)) as server:
        with Wire(server.url) as writer, Bystander(server, appends=False) as bystander:
            assert writer.ask("PUT", "/s", b"").status == 201
            for _ in range(40):
                began_s, answered = time.monotonic(), len(bystander.times_s)
                assert writer.ask("POST", "/s", b"x").status == 204
                if time.monotonic() - began_s >= HANG_S:
                    break
            else:
                pytest.fail("no sync has hung")
            assert len(bystander.times_s) - answered >= OTHERS, "the bystander waited for the disk, too"
        assert server.stop() == 0


@needs_strace
def test_a_second_signal_ends_a_server_whose_disk_hangs(tmp_path: Path) -> None:
    hang_s = 15.0
    trace = strace(tmp_path / "trace", *hanging(hang_s, after=20))
    with serving(tmp_path / "data", prefix=trace) as server, Wire(server.url) as writer:
        assert writer.ask("PUT", "/s", b"").status == 201
        writer.socket.settimeout(1)
        with pytest.raises(TimeoutError):
            for _ in range(100):
                writer.ask("POST", "/s", b"x")
        server.signal(signal.SIGTERM)
        time.sleep(4)  # it drains for two seconds, then waits for the disk
        assert server.exit_code is None
        server.signal(signal.SIGTERM)
        # The tracer lets the process end only when the sync returns, so its log must do.
        server.wait_until(lambda: "ending at once" in server.output(), hang_s - 8)
        assert server.wait_for_exit() == 143
