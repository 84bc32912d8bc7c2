"""One reader reads a long stream from its start to its tail, chunk by chunk."""

import time
from urllib.parse import urlencode

from bench.cpu import Cpu
from bench.rounds import Effort, Sample, Scenario
from bench.scenarios.streams import PATH, TEXT, connection, request
from tests.running import Server

APPEND_BYTES = 100_000
JSON = "application/json"
JSON_MESSAGE = b'{"text":"%s"}' % (b"x" * 988)  # 999 bytes, and a comma
MEGABYTE = 1_000_000
CHECKPOINTED_S = 8  # after that much quiet, what was appended is in the stream's files


def fill(server: Server, content_type: str, append: bytes, effort: Effort) -> None:
    with connection(server) as opened:
        request(opened, "PUT", content_type=content_type)
        for _ in range(effort.catch_up_bytes // APPEND_BYTES):
            request(opened, "POST", body=append, content_type=content_type)


def fill_files(server: Server, effort: Effort) -> None:
    fill(server, TEXT, b"x" * APPEND_BYTES, effort)
    time.sleep(CHECKPOINTED_S)
    read_all(server)


def fill_json(server: Server, effort: Effort) -> None:
    messages = [JSON_MESSAGE] * (APPEND_BYTES // (len(JSON_MESSAGE) + 1))
    fill(server, JSON, b"[" + b",".join(messages) + b"]", effort)
    read_all(server)


def read_all(server: Server) -> int:
    """Follow `Stream-Next-Offset` until the stream is up to date; a static file has one chunk."""
    buffer = memoryview(bytearray(MEGABYTE))
    total_bytes = 0
    offset: str | None = "-1"
    with connection(server) as opened:
        while offset is not None:
            opened.request("GET", f"{PATH}?{urlencode({'offset': offset})}")
            answer = opened.getresponse()
            while count := answer.readinto(buffer):
                total_bytes += count
            is_last = answer.headers["Stream-Up-To-Date"] == "true"
            offset = None if is_last else answer.headers["Stream-Next-Offset"]
    return total_bytes


def measure(server: Server, effort: Effort) -> Sample:
    """Read the whole stream again and again: one pass is too short to be measured well."""
    cpu = Cpu(server.pid)
    started_at = time.perf_counter()
    megabytes = 0.0
    while (taken_s := time.perf_counter() - started_at) < effort.seconds:
        total_bytes = read_all(server)
        if total_bytes < effort.catch_up_bytes:
            raise RuntimeError(f"only {total_bytes} bytes came back")
        megabytes += total_bytes / MEGABYTE
    return Sample(megabytes / taken_s, cpu.us_per(megabytes))


ALL = (
    Scenario(
        name="catch-up-files",
        title="catch-up 100 MB, text in files",
        unit="MB/s",
        measure=measure,
        prepare=fill_files,
        static_bytes=lambda effort: effort.catch_up_bytes,
    ),
    Scenario(
        name="catch-up-json",
        title="catch-up 100 MB, JSON",
        unit="MB/s",
        measure=measure,
        prepare=fill_json,
    ),
)
