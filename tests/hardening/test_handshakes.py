"""TLS connections whose client does not finish its handshake: counted, and cut (rule H4)."""

import contextlib
import socket
import ssl
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from certificates import issue
from hardening.bystander import Bystander
from hardening.conftest import needs_files
from running import Server, millstream

CROWD = 400
MOST_WORK_S = 2.0


def connect(server: Server, stack: ExitStack) -> socket.socket:
    place = urlsplit(server.url)
    return stack.enter_context(socket.create_connection((place.hostname, place.port), timeout=20))


def is_closed(client: socket.socket, within_s: float) -> bool:
    client.settimeout(max(0.01, within_s))
    try:
        while client.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def test_connections_without_a_handshake_are_counted_and_cut(tmp_path: Path) -> None:
    needs_files(CROWD)
    cert, key = issue(tmp_path)
    options = ("--tls-cert", str(cert), "--tls-key", str(key), "--max-connections", "20")
    with ExitStack() as stack:
        server = stack.enter_context(millstream(*options, "--header-timeout-s", "3"))
        trust = ssl.create_default_context(cafile=str(cert))
        crowd = []
        with Bystander(server, trust=trust) as bystander:
            with contextlib.suppress(ConnectionError):
                for number in range(CROWD):
                    client = connect(server, stack)
                    crowd.append(client)
                    if number % 3 == 1:
                        client.sendall(b"\x16\x03\x01\x02\x00\x01\x00")  # the beginning of a handshake
            began_s = time.monotonic()
            open_now = [client for client in crowd if not is_closed(client, 0.01)]
            assert len(open_now) <= 20
            assert all(is_closed(client, began_s + 15 - time.monotonic()) for client in open_now)
        assert bystander.most_work_s < MOST_WORK_S
        with httpx.Client(verify=trust) as client:
            url = server.url.replace("127.0.0.1", "localhost")
            assert client.put(url + "/s", content=b"x" * 100_000).status_code == 201
            assert len(client.get(url + "/s").content) == 100_000


def test_who_finishes_the_handshake_is_told_and_nothing_sent_early_is_lost(tmp_path: Path) -> None:
    cert, key = issue(tmp_path)
    with ExitStack() as stack:
        server = stack.enter_context(millstream("--tls-cert", str(cert), "--tls-key", str(key)))
        context = ssl.create_default_context(cafile=str(cert))
        for _ in range(50):
            raw = connect(server, stack)
            client = stack.enter_context(context.wrap_socket(raw, server_hostname="localhost"))
            client.sendall(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 404")


def test_what_is_not_tls_is_closed_without_a_trace_in_the_log(tmp_path: Path) -> None:
    cert, key = issue(tmp_path)
    with ExitStack() as stack:
        server = stack.enter_context(millstream("--tls-cert", str(cert), "--tls-key", str(key)))
        for data in (
            b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"\x16\x03\x01\x00\x02\x01\x00",
            b"",
            bytes(100_000),
        ):
            client = connect(server, stack)
            with contextlib.suppress(OSError):
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
            assert is_closed(client, 15)
        assert "Traceback" not in server.output()
