"""A restart command: kill the server with SIGKILL and start it again.

    python restarting.py PID_FILE COMMAND...

The first call has no process to kill. The file keeps the process id, so that the test can end the
server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def restart(pid_file: Path, command: list[str]) -> None:
    end(pid_file)
    log = pid_file.with_suffix(".log").open("ab")
    with log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
    pid_file.write_text(str(process.pid))
    process.returncode = 0  # it must outlive this command


def end(pid_file: Path) -> None:
    """Kill the process of the file, if there is one."""
    if pid_file.exists():
        with suppress(ProcessLookupError):
            os.kill(int(pid_file.read_text()), signal.SIGKILL)
        pid_file.unlink()


if __name__ == "__main__":
    restart(Path(sys.argv[1]), sys.argv[2:])
