"""100 MB from a stream's files: read and written, by `sendfile`, and nginx with a file of that size.

    python -m bench.long_answers [rounds] [--drop] [--first]

One pass of each in every round, so that all have the same noise. `--drop` lets the kernel drop what arrives
(Linux), which shows what the server alone can do, as before a network card. `--first` runs server and reader
before all others while they are measured (root), for a machine that has other things to do.
"""

import contextlib
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from bench.nginx import static_file
from bench.scenarios.streams import PATH, TEXT, connection, request
from tests.running import Server, announced, started

APPEND_BYTES = 100_000
TOTAL_BYTES = 100_000_000
ANSWER_BYTES = 8 * 2**20
ROUNDS = 20
SERVE = "from millstream.cli.main import run; run()"

Target = Callable[[int, str], bytes]
"""Gives the request for what begins at a position, which the last answer calls by an offset."""


@contextlib.contextmanager
def millstream(folder: str, option: str) -> Iterator[Server]:
    arguments = ["serve", "--host", "127.0.0.1", "--port", "0", "--data", folder, option]
    with started([sys.executable, "-c", SERVE, *arguments], announced) as server:
        yield server


@contextlib.contextmanager
def filled(option: str) -> Iterator[Server]:
    """Start a server on files that another has written."""
    with tempfile.TemporaryDirectory(prefix="bench-long-") as folder:
        with millstream(folder, option) as server, connection(server) as opened:
            request(opened, "PUT", content_type=TEXT)
            for _ in range(TOTAL_BYTES // APPEND_BYTES):
                request(opened, "POST", body=b"x" * APPEND_BYTES, content_type=TEXT)
        with millstream(folder, option) as server:
            yield server


def by_offset(_position: int, offset: str) -> bytes:
    return f"GET {PATH}?offset={offset} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


def at_once(_position: int, _offset: str) -> bytes:
    return f"GET {PATH} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


def by_range(position: int, _offset: str) -> bytes:
    asked = f"Range: bytes={position}-{position + ANSWER_BYTES - 1}"
    return f"GET {PATH} HTTP/1.1\r\nHost: bench\r\n{asked}\r\n\r\n".encode()


def read_all(server: Server, target: Target, flags: int) -> None:
    """Read from the beginning to the end over one connection."""
    address = urlsplit(server.url)
    buffer = memoryview(bytearray(1_000_000))
    position, offset = 0, "-1"
    with socket.create_connection((address.hostname, address.port)) as opened:
        while position < TOTAL_BYTES:
            opened.sendall(target(position, offset))
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += opened.recv(1024)
            head, _, body = answer.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:])
            position += (left := int(fields["content-length"]))
            offset = fields.get("stream-next-offset", "")
            left -= len(body)
            while left:
                left -= opened.recv_into(buffer, min(left, len(buffer)), flags)


def processor_s(pid: int) -> float:
    """Tell how long the main thread of a process has run, to the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def run_first(pid: int, *, first: bool) -> None:
    for one in (pid, os.getpid()):
        policy = os.SCHED_RR if first else os.SCHED_OTHER
        os.sched_setscheduler(one, policy, os.sched_param(1 if first else 0))


def main() -> None:
    rounds = next((int(word) for word in sys.argv[1:] if word.isdigit()), ROUNDS)
    flags = socket.MSG_TRUNC if "--drop" in sys.argv else 0
    with contextlib.ExitStack() as stack:
        nginx = stack.enter_context(static_file(PATH, TOTAL_BYTES))
        contenders: dict[str, tuple[Server, Target]] = {
            "read and written": (stack.enter_context(filled("--no-sendfile")), by_offset),
            "sendfile": (stack.enter_context(filled("--sendfile")), by_offset),
            "nginx, at once": (nginx, at_once),
            "nginx, 8 MiB each": (nginx, by_range),
        }
        rates: dict[str, list[float]] = {name: [] for name in contenders}
        costs: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(rounds + 1):
            for name, (server, target) in contenders.items():
                if "--first" in sys.argv:
                    run_first(server.pid, first=True)
                used_s, began_s = processor_s(server.pid), time.perf_counter()
                read_all(server, target, flags)
                taken_s, used_s = time.perf_counter() - began_s, processor_s(server.pid) - used_s
                if "--first" in sys.argv:
                    run_first(server.pid, first=False)
                    time.sleep(0.1)  # the others' turn
                if number:  # the first round warms up
                    rates[name].append(TOTAL_BYTES / taken_s / 1e9)
                    costs[name].append(used_s * 1e6 / (TOTAL_BYTES / 1e6))
    for name, rate in rates.items():
        spread = f"{statistics.median(rate):.2f} GB/s ({min(rate):.2f} to {max(rate):.2f})"
        print(f"{name:18} {spread}, server {statistics.median(costs[name]):.0f} us of CPU for a MB")


if __name__ == "__main__":
    main()
