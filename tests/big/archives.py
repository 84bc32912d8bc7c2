"""A stream of gigabytes is archived as Parquet by Spark's batch source, with flat memory everywhere."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from big.memory import MIB, watching
from big.streams import MAX_GROWTH_BYTES, TAIL_BYTES
from millstream import DurableStream
from running import millstream

TESTS = Path(__file__).parents[1]
NOISE_CHARACTERS = 1000
ROWS_PER_APPEND = 1024
MAX_PYTHON_BYTES = 512 * MIB  # of one process; there are as many as cores, and a few
MAX_JVM_BYTES = 2048 * MIB  # a heap of 1 GiB, and what a JVM has beside its heap


def archive(scratch: Path, size: int, *, progress: bool = False) -> str:
    """Write so many bytes of JSON, archive them, compare; gives what it took, or fails."""
    row_bytes = len(_row(10**6, "x" * NOISE_CHARACTERS)) + 1
    appends = max(1, size // row_bytes // ROWS_PER_APPEND)
    rows = appends * ROWS_PER_APPEND
    options = ["--store", "log", "--data", str(scratch / "data")]
    with millstream(*options) as server, watching(server.pid, os.getpid()) as peaks:
        idle = peaks.now["server"]
        log = DurableStream.create(f"{server.url}/big", content_type="application/json")
        chance = random.Random(1)
        for number in range(appends):
            first = number * ROWS_PER_APPEND
            noise = chance.randbytes(ROWS_PER_APPEND * NOISE_CHARACTERS // 2).hex()
            pieces = (
                noise[start : start + NOISE_CHARACTERS] for start in range(0, len(noise), NOISE_CHARACTERS)
            )
            log.append_all([_row(first + n, piece) for n, piece in enumerate(pieces)])
            if progress and number % 500 == 0:
                print(f"  {first:,} of {rows:,} rows appended", flush=True)
        log.close()
        begun_s = time.monotonic()
        command = [sys.executable, "-m", "big.archiving", server.url, "big", str(scratch / "parquet")]
        done = subprocess.run(command, cwd=TESTS, stdout=subprocess.PIPE, text=True, check=False)
        taken_s = time.monotonic() - begun_s
        assert done.returncode == 0, f"the job left with {done.returncode}"
        grown = peaks.largest["server"] - idle
    found = tuple(map(int, done.stdout.split()))
    assert found == (rows, 0, rows - 1, rows * (rows - 1) // 2, rows * NOISE_CHARACTERS), found
    assert grown < TAIL_BYTES + MAX_GROWTH_BYTES, f"the server grew by {grown // MIB} MiB"
    assert peaks.largest["python"] < MAX_PYTHON_BYTES, f"a Python process: {peaks.mib('python')} MiB"
    assert peaks.largest["jvm"] < MAX_JVM_BYTES, f"the JVM: {peaks.mib('jvm')} MiB"
    return (
        f"{rows:,} rows, {rows * row_bytes // MIB} MiB archived and counted in {taken_s:.0f} s; peaks: server"
        f" {peaks.mib('server')} MiB (idle {idle // MIB}), largest Python process {peaks.mib('python')},"
        f" JVM {peaks.mib('jvm')}"
    )


def _row(number: int, noise: str) -> bytes:
    return f'{{"n":{number},"noise":"{noise}"}}'.encode()
