"""Bodies that stall, drip or fill memory, sent to the ASGI application on uvicorn (rule H4)."""

import contextlib
import time
from contextlib import ExitStack

import pytest

from hardening.bystander import Bystander
from running import uvicorn_server
from wire.raw_connection import Wire, request

MIB = 2**20
MOST_WORK_S = 2.0
BEGUN = {"Content_Type": "text/plain", "Content_Length": str(16 * MIB)}
CHUNKED = {"Content_Type": "text/plain", "Transfer_Encoding": "chunked"}


@pytest.mark.parametrize("beginning", [b"", b"hello", bytes(MIB)], ids=["no byte", "few bytes", "1 MiB"])
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_body_that_stalls_is_given_up(beginning: bytes, framing: str) -> None:
    with uvicorn_server(body_timeout_s=1) as server, Wire(server.url) as wire:
        assert wire.ask("PUT", "/s", Content_Type="text/plain").status == 201
        with Bystander(server) as bystander:
            if framing == "length":
                wire.send(request("POST", "/s", **BEGUN) + beginning)
            else:
                wire.send(request("POST", "/s", **CHUNKED) + b"%x\r\n%b" % (16 * MIB, beginning))
            answer = wire.answer()
            assert (answer.status, answer.headers["connection"]) == (408, "close")
            assert b"TIMEOUT" in answer.body
            assert wire.is_closed()
        assert bystander.most_work_s < MOST_WORK_S


def test_a_body_that_drips_is_given_up() -> None:
    """However regularly: the rate counts, not the pauses."""
    with uvicorn_server(body_timeout_s=2, min_body_bytes_per_s=250) as server:
        with Wire(server.url) as wire:
            assert wire.ask("PUT", "/s", Content_Type="text/plain").status == 201
            wire.send(request("POST", "/s", Content_Type="text/plain", Content_Length="100000"))
            wire.socket.settimeout(0.1)
            given_up = b""
            for _ in range(200):
                with contextlib.suppress(TimeoutError):
                    given_up = wire.socket.recv(65536)
                    break
                wire.send(b"x")
            assert given_up.startswith(b"HTTP/1.1 408")
        with Wire(server.url) as wire:
            wire.send(request("POST", "/s", Content_Type="text/plain", Content_Length="10000"))
            for _ in range(10):
                wire.send(b"x" * 1000)
                time.sleep(0.3)
            assert wire.answer().status == 204


def test_bodies_of_everybody_have_one_budget() -> None:
    """Those that stall are given up when others need their room, and those who behave are served."""
    with uvicorn_server(max_bodies_bytes=32 * MIB) as server, ExitStack() as stack:
        before = server.peak_bytes()
        with Bystander(server) as bystander:
            wires = [stack.enter_context(Wire(server.url)) for _ in range(20)]
            assert wires[0].ask("PUT", "/s", Content_Type="text/plain").status == 201
            for wire in wires:
                wire.send(request("POST", "/s", **BEGUN))
                wire.socket.settimeout(0.2)
                with contextlib.suppress(TimeoutError, ConnectionError):  # it may wait, or be refused
                    wire.send(bytes(15 * MIB))
            patient = stack.enter_context(Wire(server.url))
            patient.socket.settimeout(60)
            assert patient.ask("POST", "/s", bytes(15 * MIB)).status == 204
        assert bystander.most_work_s < MOST_WORK_S
        assert server.peak_bytes() - before < 130 * MIB


def test_clients_that_leave_free_the_budget() -> None:
    with uvicorn_server(max_bodies_bytes=32 * MIB) as server:
        with Wire(server.url) as wire:
            assert wire.ask("PUT", "/s", Content_Type="text/plain").status == 201
        for _ in range(4):
            with ExitStack() as stack:
                for _ in range(2):
                    wire = stack.enter_context(Wire(server.url))
                    wire.send(request("POST", "/s", **BEGUN) + bytes(15 * MIB))
                time.sleep(0.3)
        with Wire(server.url) as wire:
            for _ in range(3):
                assert wire.ask("POST", "/s", bytes(16 * MIB)).status == 204
