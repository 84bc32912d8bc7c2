"""What the numbers were measured on: without it they mean nothing."""

import datetime
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path

SYNCS = 500


def describe() -> dict[str, str]:
    return {
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count()),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": "wrk" if shutil.which("wrk") else "bench.generator, slower than wrk",
        "syncs of 4 KiB": f"{syncs_per_second():,.0f}/s",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def syncs_per_second() -> float:
    """How often the disk makes a small write durable: the limit of a lone durable writer."""
    with tempfile.TemporaryFile() as file:
        page = bytes(4096)
        os.pwrite(file.fileno(), page * SYNCS, 0)
        os.fsync(file.fileno())
        started_at = time.perf_counter()
        for number in range(SYNCS):
            os.pwrite(file.fileno(), page, number * len(page))
            getattr(os, "fdatasync", os.fsync)(file.fileno())
        return SYNCS / (time.perf_counter() - started_at)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        return platform.processor() or platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())
