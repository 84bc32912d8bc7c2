"""One JSON batch as large as a body may be, and clients that read parts of it: others are answered meanwhile.

Each of these stopped the server for up to a minute when every piece of a response parsed the whole append.
What a turn of the event loop takes is measured in `test_event_loop`.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from hardening.bystander import Bystander
from millstream.protocol.offsets import format_offset
from running import Server, millstream
from wire.raw_connection import Wire

BODY_BYTES = 16 * 2**20
MOST_WORK_S = (
    2.0  # on a machine that does much else at the same time; it is about a hundredth of that on a quiet one
)
STALLED_READERS = 40
JSON = "application/json"

EVENT = json.dumps(
    {"id": 1234567890, "kind": "page_view", "user": {"id": 42}, "tags": ["a", "b, c"]}
).encode()
BATCHES: dict[str, bytes] = {
    "ordinary events": b"[" + b",".join([EVENT] * (BODY_BYTES // (len(EVENT) + 1) - 1)) + b"]",
    "numbers": b"[" + b"1," * (2 * 2**20 - 1) + b"1]",
    "one text": b'["' + b"x" * (BODY_BYTES - 4) + b'"]',
    "line breaks": b"[[" + b"\n" * (BODY_BYTES - 4) + b"]]",
    "deep messages": b"[" + b",".join([b"[0," * 500 + b"0" + b"]" * 500] * 2_000) + b"]",
}


def paths() -> dict[str, str]:
    return {name: f"/{number}" for number, name in enumerate(BATCHES)}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with millstream("--max-body-bytes", str(BODY_BYTES)) as server, Wire(server.url) as wire:
        wire.socket.settimeout(60)
        for name, path in paths().items():
            assert wire.ask("PUT", path, BATCHES[name], Content_Type=JSON).status == 201, name
        yield server


def read_events(wire: Wire, path: str) -> None:
    """Follow the stream until there is nothing new."""
    wire.request("GET", f"{path}?offset=-1&live=sse")
    assert wire.head()[0] == 200
    assert any(b'"upToDate":true' in chunk[-200:] for chunk in wire.chunks())


def read_a_little(wire: Wire, path: str) -> None:
    for limit in (1, 1000, 100_000):
        assert wire.ask("GET", f"{path}?offset=-1&limit={limit}").status == 200


def read_from_inside(wire: Wire, path: str) -> None:
    tail = int(wire.ask("HEAD", path).headers["stream-next-offset"].split("_")[1])
    for offset in range(tail - 7, tail - 2):
        answer = wire.ask("GET", f"{path}?offset={format_offset(offset).decode()}&limit=1")
        assert answer.status in (200, 400)
        assert wire.ask("GET", f"{path}?until={format_offset(offset).decode()}&limit=1").status in (200, 400)


def fork_too_far(wire: Wire, path: str) -> None:
    for number in (10**6, 10**9):
        fork = {"Stream-Forked-From": path, "Stream-Fork-Offset": format_offset(0).decode()}
        made = wire.ask("PUT", f"{path}/fork/{number}", **fork, Stream_Fork_Sub_Offset=str(number))
        assert made.status in (201, 400), made.body


ATTACKS: dict[str, Callable[[Wire, str], None]] = {
    "events": read_events,
    "little reads": read_a_little,
    "offsets inside": read_from_inside,
    "forks": fork_too_far,
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("batch", BATCHES)
def test_readers_of_a_large_batch_stop_nobody(server: Server, batch: str, attack: str) -> None:
    """Rule H4."""
    with (
        Wire(server.url) as wire,
        Bystander(server) as other,
    ):
        wire.socket.settimeout(120)
        ATTACKS[attack](wire, paths()[batch])
    assert other.most_work_s < MOST_WORK_S


def test_many_readers_of_large_batches_stop_nobody(server: Server) -> None:
    """Rule H4: what is done in a turn does not depend on how many wait."""
    with ExitStack() as stack, Bystander(server) as other:
        wires = [stack.enter_context(Wire(server.url)) for _ in range(60)]
        for number, wire in enumerate(wires):
            path = list(paths().values())[number % len(BATCHES)]
            wire.request("GET", f"{path}?offset=-1&live=sse")
            wire.socket.settimeout(0.001)
        ends_s = time.monotonic() + 2
        while time.monotonic() < ends_s:
            for wire in wires:
                with suppress(TimeoutError):  # it has read everything
                    assert wire.socket.recv(2**20)
    assert other.most_work_s < MOST_WORK_S


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_readers_that_stall_in_a_long_message_hold_little_memory(server: Server) -> None:
    """L4: a message of line breaks becomes six times as long in an event stream, and none of it is held."""

    def resident_bytes() -> int:
        text = Path(f"/proc/{server.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) * 1024

    with ExitStack() as stack:
        before = resident_bytes()
        for _ in range(STALLED_READERS):
            wire = stack.enter_context(Wire(server.url))
            wire.request("GET", f"{paths()['line breaks']}?offset=-1&live=sse")
            assert wire.head()[0] == 200
            assert next(wire.chunks())
        with Bystander(server):
            time.sleep(1)  # until all that fits has been sent
        assert resident_bytes() - before < STALLED_READERS * 2**20
