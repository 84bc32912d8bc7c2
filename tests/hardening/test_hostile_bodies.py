"""Bodies that cost the server much more than their client: everybody else is still served (rules A11, H4)."""

import contextlib
import gzip
import random
import re
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import jwt
import pytest
import zstandard

from hardening.bystander import Bystander
from running import Server, millstream
from wire.raw_connection import Answer, Wire, request

MIB = 2**20
JSON = "application/json"
SECRET = "a secret of more than sixteen bytes"
MOST_WORK_S = 2.0  # these attacks took seconds to minutes; on a quiet machine it is some milliseconds


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with millstream() as server:
        with Wire(server.url) as wire:
            assert wire.ask("PUT", "/json", Content_Type=JSON).status == 201
            assert wire.ask("PUT", "/text", Content_Type="text/plain").status == 201
        yield server


def peak_bytes(server: Server) -> int:
    if sys.platform != "linux":
        return 0
    text = Path(f"/proc/{server.pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) * 1024


def patient(server: Server, stack: ExitStack) -> Wire:
    """A connection whose client waits for its answer, however long the server works on it."""
    wire = stack.enter_context(Wire(server.url))
    wire.socket.settimeout(120)
    return wire


def send_while_read(wire: Wire, data: bytes) -> None:
    """Send as much as the server reads: it stops when there is no room."""
    wire.socket.settimeout(0.2)
    with contextlib.suppress(TimeoutError):
        wire.send(data)
    wire.socket.settimeout(10)


def answer_so_far(wire: Wire) -> Answer | None:
    wire.socket.settimeout(0.01)
    with contextlib.suppress(TimeoutError, ConnectionError):
        return wire.answer()
    return None


def window_frame(window_bytes: int = 8 * MIB) -> bytes:
    """An empty zstd frame that asks for a large window."""
    descriptor = (window_bytes.bit_length() - 1 - 10) << 3
    return struct.pack("<IBB", 0xFD2FB528, 0, descriptor) + b"\x01\x00\x00"


ENCODED: dict[str, tuple[bytes, str, int]] = {
    "empty gzip members": (gzip.compress(b"") * 52_000, "gzip", 413),
    "gzip in gzip": (gzip.compress(gzip.compress(b"") * 400_000), "gzip, gzip", 415),
    "empty zstd frames": (zstandard.compress(b"") * 20_000, "zstd", 413),
    "zstd frames with large windows": (window_frame() * 220, "zstd", 400),
    "a gzip bomb": (gzip.compress(bytes(200 * MIB)), "gzip", 413),
    "a body of the largest size": (gzip.compress(random.Random(1).randbytes(4096) * 4096), "gzip", 204),
}


@pytest.mark.parametrize("which", ENCODED)
def test_a_compressed_body_stops_nobody(server: Server, which: str) -> None:
    body, coding, status = ENCODED[which]
    with Bystander(server) as bystander, ExitStack() as stack:
        wires = [patient(server, stack) for _ in range(3)]
        for wire in wires:
            wire.request("POST", "/text", body, Content_Encoding=coding)
        assert [wire.answer().status for wire in wires] == [status] * 3
    assert bystander.most_work_s < MOST_WORK_S


HEAVY_JSON: dict[str, tuple[bytes, int]] = {
    "many messages": (b"[" + b",".join([b'{"id":123456,"text":"abcdefghijklmnopq"}'] * 390_000) + b"]", 204),
    "many numbers": (b"[" + b"1," * (8 * MIB - 2) + b"1]", 204),
    "empty arrays in one message": (b"[[" + b"[]," * (5 * MIB) + b"1]]", 204),
    "empty arrays as messages": (b"[" + b"[]," * (5 * MIB) + b"1]", 204),
    "backslashes": (b'["' + b"\\\\" * (8 * MIB - 4) + b'"]', 204),
    "surrogates": (b'["' + b"\\ud800" * (2 * MIB) + b'"]', 204),
    "strings": (b"[" + b'"",' * (5 * MIB) + b"1]", 204),
    "spaces": (b"[" + b" 1 ,\n" * (2 * MIB) + b"1]", 204),
    "deep items": (b"[" + b",".join([b"[" * 100 + b"]" * 100] * 80_000) + b"]", 204),
    "an array that does not end": (b"[" + b"1," * (8 * MIB - 2), 400),
    "a comma too many": (b"[" + b"1," * (8 * MIB - 2) + b"]", 400),
    "brackets that do not close": (b"[" * (16 * MIB), 400),
}


@pytest.mark.parametrize("which", HEAVY_JSON)
def test_json_of_the_largest_size_stops_nobody(server: Server, which: str) -> None:
    body, status = HEAVY_JSON[which]
    assert len(body) <= 16 * MIB
    with Bystander(server) as bystander, ExitStack() as stack:
        began_s = time.monotonic()
        answer = patient(server, stack).ask("POST", "/json", body, Content_Type=JSON)
        print(f"{which}: {time.monotonic() - began_s:.2f} s")
        assert answer.status == status, answer
        created = patient(server, stack).ask(
            "PUT", f"/new/{which.replace(' ', '-')}", body, Content_Type=JSON
        )
        assert created.status == (201 if status == 204 else 400)
    assert bystander.most_work_s < MOST_WORK_S


def test_appends_of_one_connection_keep_their_order_whatever_their_size() -> None:
    """Those that a thread checks do not let the small ones behind them pass."""
    messages = [b"%d" % n if n % 3 else b'"%d %b"' % (n, b"x" * 100_000) for n in range(30)]
    with millstream() as server, ExitStack() as stack:
        wire = patient(server, stack)
        assert wire.ask("PUT", "/order", Content_Type=JSON).status == 201
        wire.send(b"".join(request("POST", "/order", one, Content_Type=JSON) for one in messages))
        assert [wire.answer().status for _ in messages] == [204] * len(messages)
        assert wire.ask("GET", "/order").body == b"[" + b",".join(messages) + b"]"


# -- Bodies that fill memory ---------------------------------------------------------------------


def token(scope: str) -> str:
    return f"Bearer {jwt.encode({'scope': scope}, SECRET, algorithm='HS256')}"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    with millstream("--auth-secret", SECRET) as server:
        yield server


BEGUN = {"Content_Type": "text/plain", "Content_Length": str(16 * MIB)}
CHUNKED = {"Content_Type": "text/plain", "Transfer_Encoding": "chunked"}


@pytest.mark.parametrize(
    ("method", "target", "headers", "status"),
    [
        ("POST", "/s", {}, 401),
        ("PUT", "/s", {}, 401),
        ("POST", "/s", {"Authorization": "Bearer nonsense"}, 401),
        ("POST", "/s", {"Authorization": token("read:/s")}, 403),
        ("POST", "/%zz", {"Authorization": token("write:/s")}, 400),
        ("OPTIONS", "/s", {}, 413),
        ("GET", "/s", {}, 413),
        ("POST", "/__ds/streams", {}, 401),
        ("POST", "/__ds/access", {}, 413),
    ],
)
def test_who_may_not_send_a_large_body_is_refused_before_it(
    guarded: Server, method: str, target: str, headers: dict[str, str], status: int
) -> None:
    with Wire(guarded.url) as wire:
        wire.send(request(method, target, **BEGUN, **headers))
        answer = wire.answer()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
    with Wire(guarded.url) as wire:
        wire.send(request(method, target, **CHUNKED, **headers) + b"%x\r\n%b\r\n" % (100_000, bytes(100_000)))
        assert wire.answer().status == status
    with Wire(guarded.url) as wire:
        wire.send(request(method, target, **BEGUN, **headers, Expect="100-continue"))
        assert wire.answer().status == status


def test_a_refused_small_body_costs_no_connection(guarded: Server) -> None:
    with Wire(guarded.url) as wire:
        head = request("POST", "/s", Content_Type="text/plain", Content_Length="5")
        for _ in range(2):
            wire.send(head)
            time.sleep(0.05)
            wire.send(b"hello")
            assert wire.answer().status == 401


def test_bodies_without_a_token_fill_no_memory(guarded: Server) -> None:
    with ExitStack() as stack, Bystander(guarded, Authorization=token("write:/** read:/**")):
        before = peak_bytes(guarded)
        for _ in range(60):
            wire = stack.enter_context(Wire(guarded.url))
            with contextlib.suppress(ConnectionError):  # it may be refused before we are done
                wire.send(request("POST", "/s", **BEGUN) + bytes(15 * MIB))
    assert peak_bytes(guarded) - before < 64 * MIB


def test_bodies_of_everybody_have_one_budget() -> None:
    """Those that stall are given up when others need their room, and those who behave are served."""
    with millstream("--max-bodies-bytes", str(32 * MIB)) as server, ExitStack() as stack:
        with Bystander(server):
            before = peak_bytes(server)
            wires = [stack.enter_context(Wire(server.url)) for _ in range(20)]
            wires[0].ask("PUT", "/s", Content_Type="text/plain")
            for wire in wires:
                wire.send(request("POST", "/s", **BEGUN))
                with contextlib.suppress(ConnectionError):
                    send_while_read(wire, bytes(15 * MIB))
            assert patient(server, stack).ask("POST", "/s", bytes(15 * MIB)).status == 204
            refused = next(answer for wire in wires if (answer := answer_so_far(wire)) is not None)
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert b"TOO_MANY_BODIES" in refused.body
        assert peak_bytes(server) - before < 130 * MIB


def test_bodies_that_are_refused_when_they_are_decoded_leave_nothing_behind() -> None:
    body = gzip.compress(b"[" + b"1," * (8 * MIB - 2) + b"]", 1)
    with millstream() as server, ExitStack() as stack:
        with Bystander(server) as bystander:
            before = peak_bytes(server)
            wires = [patient(server, stack) for _ in range(30)]
            wires[0].ask("PUT", "/json", Content_Type=JSON)
            for wire in wires:
                wire.request("POST", "/json", body[:-20], Content_Type=JSON, Content_Encoding="gzip")
            assert [wire.answer().status for wire in wires] == [400] * 30
        assert bystander.most_work_s < MOST_WORK_S
        assert peak_bytes(server) - before < 150 * MIB


def test_small_chunks_cost_no_more_than_large_ones() -> None:
    with millstream() as server, ExitStack() as stack:
        wire = patient(server, stack)
        wire.ask("PUT", "/s", Content_Type="text/plain")
        with Bystander(server) as bystander:
            before = peak_bytes(server)
            wire.send(request("POST", "/s", **CHUNKED))
            for _ in range(128):
                wire.send(b"2\r\nxx\r\n" * 32 * 1024)  # 8 MiB in all
            assert peak_bytes(server) - before < 40 * MIB
            wire.send(b"0\r\n\r\n")
            assert wire.answer().status == 204
        assert bystander.most_work_s < MOST_WORK_S


def test_a_body_that_drips_is_given_up() -> None:
    """However regularly: the rate counts, not the pauses."""
    with millstream("--body-timeout-s", "4", "--min-body-bytes-per-s", "250") as server:
        with Wire(server.url) as wire:
            wire.ask("PUT", "/s", Content_Type="text/plain")
            wire.send(request("POST", "/s", Content_Type="text/plain", Content_Length="100000"))
            wire.socket.settimeout(0.2)
            given_up = b""
            for _ in range(100):
                with contextlib.suppress(TimeoutError):
                    given_up = wire.socket.recv(65536)
                    break
                wire.send(b"x")
            assert given_up.startswith(b"HTTP/1.1 408")
        with Wire(server.url) as wire:
            wire.send(request("POST", "/s", Content_Type="text/plain", Content_Length="10000"))
            for _ in range(10):
                wire.send(b"x" * 1000)
                time.sleep(0.5)
            assert wire.answer().status == 204


# -- The watchdog --------------------------------------------------------------------------------


def test_no_request_blocks_the_event_loop(server: Server) -> None:
    """After all of the above, in the order of this file: what the watchdog has seen."""
    with Wire(server.url) as wire:
        text = wire.ask("GET", "/__ds/metrics").body.decode()
    counts = {
        float(bound): float(count)
        for bound, count in re.findall(r'millstream_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)', text)
    }
    print({bound: count for bound, count in counts.items() if bound >= 0.02})
    assert counts[float("inf")] > 10
    assert counts[float("inf")] == counts[2.5]
