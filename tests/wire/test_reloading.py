"""SIGHUP: new keys and limits, no connection lost, what is wrong changes nothing; and stopping twice."""

import contextlib
import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import jwt
import pytest

from certificates import issue
from millstream.server.reloading import is_reloadable
from millstream.server.settings import fields
from running import Server, announced, free_port, millstream, started
from wire.raw_connection import Wire, request

TEXT = {"Content-Type": "text/plain"}
OLD, NEW = "the old secret, which is long enough", "the new secret, which is long enough"


class Configured:
    """A server, its configuration file, and how to tell it about a change."""

    def __init__(self, config: Path, server: Server) -> None:
        self.config = config
        self.server = server

    def reload(self, content: str, says: str) -> str:
        """Change the file, send SIGHUP, and wait for what the server says about it; gives the line."""
        before = len(self.server.output())
        self.config.write_text(content)
        self.server.signal(signal.SIGHUP)
        self.server.wait_until(lambda: says in self.server.output()[before:])
        [line] = [line for line in self.server.output()[before:].splitlines() if says in line]
        return line


@contextlib.contextmanager
def configured(config: Path, content: str, *options: str) -> Iterator[Configured]:
    config.write_text(content)
    command = [sys.executable, "-m", "millstream", "serve", "--port", "0", "--store", "memory"]
    with started([*command, "--config", str(config), *options], announced) as server:
        server.wait_until(lambda: " info listening " in server.output())
        yield Configured(config, server)
        assert server.stop() == 0
        assert "Traceback" not in server.output()


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {jwt.encode({'scope': 'admin'}, secret, algorithm='HS256')}", **TEXT}


def test_keys_change_and_connections_stay(tmp_path: Path) -> None:
    with configured(tmp_path / "c.toml", f'auth_secret = "{OLD}"\n') as running:
        server = running.server
        assert httpx.put(f"{server.url}/s", headers=bearer(OLD)).status_code == 201
        with Wire(server.url) as watching, Wire(server.url) as idle:
            assert idle.ask("HEAD", "/s", Authorization=bearer(OLD)["Authorization"]).status == 200
            watching.request("GET", "/s?offset=-1&live=sse", Authorization=bearer(OLD)["Authorization"])
            assert watching.head()[0] == 200
            events = watching.events()
            next(events)
            line = running.reload(f'auth_secret = "{NEW}"\n', " reloaded ")
            assert "changed=auth_secret" in line
            assert OLD not in server.output()
            assert NEW not in server.output()
            assert idle.ask("HEAD", "/s", Authorization=bearer(OLD)["Authorization"]).status == 401
            assert idle.ask("HEAD", "/s", Authorization=bearer(NEW)["Authorization"]).status == 200
            assert httpx.get(f"{server.url}/__ds/metrics", headers=bearer(OLD)).status_code == 401
            assert httpx.get(f"{server.url}/__ds/metrics", headers=bearer(NEW)).status_code == 200
            httpx.post(f"{server.url}/s", content=b"hello", headers=bearer(NEW))
            assert next(events).data == "hello"


def test_a_secret_is_rotated_while_both_are_accepted(tmp_path: Path) -> None:
    def statuses(server: Server) -> list[int]:
        return [httpx.get(f"{server.url}/s", headers=bearer(secret)).status_code for secret in (OLD, NEW)]

    with configured(tmp_path / "c.toml", f'auth_secret = "{OLD}"\n') as running:
        assert httpx.put(f"{running.server.url}/s", headers=bearer(OLD)).status_code == 201
        assert statuses(running.server) == [200, 401]
        running.reload(f'auth_secret = "{NEW}"\nauth_secret_old = "{OLD}"\n', " reloaded ")
        assert statuses(running.server) == [200, 200]
        running.reload(f'auth_secret = "{NEW}"\n', " reloaded ")
        assert statuses(running.server) == [401, 200]


def test_limits_change(tmp_path: Path) -> None:
    with configured(tmp_path / "c.toml", "max_body_bytes = 100\n") as running:
        url = f"{running.server.url}/s"
        httpx.put(url, headers=TEXT)
        assert httpx.post(url, content=bytes(200), headers=TEXT).status_code == 413
        running.reload(
            "max_body_bytes = 300\nrate_per_address = 3\nmax_connections_per_address = 3\n", " reloaded "
        )
        assert httpx.post(url, content=bytes(200), headers=TEXT).status_code == 204
        assert 429 in [httpx.head(url).status_code for _ in range(6)]
        wires = [Wire(running.server.url) for _ in range(4)]
        assert wires[3].ask("GET", "/x").status == 429
        for wire in wires:
            wire.socket.close()


WRONG = {
    "not TOML": ("port = \n", "is not valid TOML"),
    "an unknown setting": ("prot = 80\n", "has unknown settings: prot"),
    "a wrong value": ("max_body_bytes = -1\n", "is below the smallest value"),
    "a secret that is too short": ('auth_secret = "short"\n', "at least 16 bytes"),
    "a key that is not there": ('auth_key = "nowhere.pem"\n', "nowhere.pem cannot be used"),
    "https": ('tls_cert = "a"\ntls_key = "b"\n', "needs a restart"),
}


@pytest.mark.parametrize("which", WRONG)
def test_what_is_wrong_changes_nothing_and_is_one_line(tmp_path: Path, which: str) -> None:
    content, complaint = WRONG[which]
    with configured(tmp_path / "c.toml", f'auth_secret = "{OLD}"\n') as running:
        before = len(running.server.output())
        line = running.reload(content, "reload failed")
        assert complaint in line
        assert running.server.output()[before:].splitlines() == [line]
        assert httpx.put(f"{running.server.url}/s", headers=bearer(OLD)).status_code == 201
        assert httpx.put(f"{running.server.url}/s").status_code == 401


def test_a_file_cut_off_at_any_line_never_opens_the_server(tmp_path: Path) -> None:
    """Also on loopback, where a start without tokens is allowed."""
    lines = ["max_body_bytes = 100000\n", "rate_per_address = 1000\n", f'auth_secret = "{OLD}"\n']
    with configured(tmp_path / "c.toml", "".join(lines)) as running:
        for kept in range(len(lines)):
            before = len(running.server.output())
            line = running.reload("".join(lines[:kept]), "reload failed")
            assert "no secret or key is left" in line
            assert running.server.output()[before:].splitlines() == [line]
            assert httpx.put(f"{running.server.url}/s").status_code == 401
        assert httpx.put(f"{running.server.url}/s", headers=bearer(OLD)).status_code == 201


OPENS_READS = {
    "everybody may read": 'public_streams = true\nskip_auth = true\nauth_secret = "{secret}"\n',
    "only AnyCable's settings are left": "public_streams = true\nskip_auth = true\n",
}


@pytest.mark.parametrize("which", OPENS_READS)
def test_a_reload_does_not_open_reads_either(tmp_path: Path, which: str) -> None:
    with configured(tmp_path / "c.toml", f'auth_secret = "{OLD}"\n') as running:
        assert httpx.put(f"{running.server.url}/s", headers=bearer(OLD)).status_code == 201
        line = running.reload(OPENS_READS[which].format(secret=OLD), "reload failed")
        assert "would let everybody read" in line
        assert httpx.get(f"{running.server.url}/s").status_code == 401


def test_a_reload_may_close_an_open_server(tmp_path: Path) -> None:
    with configured(tmp_path / "c.toml", "") as running:
        assert httpx.put(f"{running.server.url}/s").status_code == 201
        running.reload(f'auth_secret = "{OLD}"\n', " reloaded ")
        assert httpx.get(f"{running.server.url}/s").status_code == 401


def test_tokens_cannot_be_dropped_on_an_open_address(tmp_path: Path) -> None:
    """What a start refuses, a reload refuses."""
    config = tmp_path / "c.toml"
    config.write_text(f'auth_secret = "{OLD}"\n')
    port = free_port()
    command = [sys.executable, "-m", "millstream", "serve", "--host", "0.0.0.0", "--port", str(port)]

    def ready(server: Server) -> None:
        server.wait_until(lambda: "listening" in server.output())
        server.url = f"http://127.0.0.1:{port}"

    with started([*command, "--store", "memory", "--config", str(config)], ready) as server:
        line = Configured(config, server).reload("", "reload failed")
        assert "without tokens" in line
        assert httpx.put(f"{server.url}/s").status_code == 401


def test_what_needs_a_restart_is_said(tmp_path: Path) -> None:
    with configured(tmp_path / "c.toml", "") as running:
        line = running.reload('path = "/v1"\nmax_body_bytes = 5\n', "need a restart")
        assert "settings=path" in line
        assert httpx.put(f"{running.server.url}/s", headers=TEXT).status_code == 201
        assert httpx.post(f"{running.server.url}/s", content=bytes(6), headers=TEXT).status_code == 413


def test_a_certificate_is_renewed_for_new_connections(tmp_path: Path) -> None:
    def served_name(port: int) -> bytes:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain) as secured,
        ):
            return secured.getpeercert(binary_form=True) or b""

    def ready(server: Server) -> None:
        server.wait_until(lambda: "https://127.0.0.1:" in server.output())

    cert, key = issue(tmp_path, "old.example")
    command = [sys.executable, "-m", "millstream", "serve", "--port", "0", "--store", "memory"]
    command += ["--tls-cert", str(cert), "--tls-key", str(key)]
    with started(command, ready) as server:
        port = int(server.output().split("https://127.0.0.1:")[1].split()[0])
        assert b"old.example" in served_name(port)
        issue(tmp_path, "new.example")
        server.signal(signal.SIGHUP)
        server.wait_until(lambda: " reloaded " in server.output())
        assert b"new.example" in served_name(port)
        cert.write_text("rubbish")
        server.signal(signal.SIGHUP)
        server.wait_until(lambda: "reload failed" in server.output())
        assert b"new.example" in served_name(port)


def test_every_reloadable_setting_is_documented_as_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    table, _, rest = page.partition("## Reloading")[2].partition("\n## ")[0].partition("Other settings")
    for name, *_ in fields():
        option = f"`--{name.replace('_', '-')}`"
        group = f"`--{name.partition('_')[0]}-*`"
        listed = option in table or (group in table and option not in rest)
        assert listed == is_reloadable(name), name


# -- Stopping twice --------------------------------------------------------------------------------


@pytest.mark.parametrize(("second", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_the_drain_at_once(second: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "millstream", "serve", "--port", "0", "--store", "memory"]
    with (
        started([*command, "--drain-timeout-s", "60"], announced) as server,
        Wire(server.url) as sending,
    ):
        httpx.put(f"{server.url}/s", headers=TEXT)
        sending.send(request("POST", "/s", b"", Content_Length="5") + b"he")
        httpx.head(f"{server.url}/s")
        server.signal(signal.SIGTERM)
        server.wait_until(lambda: " stopping " in server.output())
        assert server.exit_code is None
        began_s = time.monotonic()
        server.signal(second)
        assert server.wait_for_exit() == code
        assert time.monotonic() - began_s < 30
        [line] = [line for line in server.output().splitlines() if "ending at once" in line]
        assert f"signal={second.name}" in line
        assert f"code={code}" in line


def test_systemd_is_told_when_the_server_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        address = tmp_path / "notify"
        listener.bind(str(address))
        listener.settimeout(20)
        command = [sys.executable, "-m", "millstream", "serve", "--port", "0", "--store", "memory"]
        with started(command, announced, {"NOTIFY_SOCKET": str(address)}) as server:
            assert listener.recv(100) == b"READY=1"
            server.signal(signal.SIGTERM)
            assert listener.recv(100) == b"STOPPING=1"


def test_a_reload_without_a_configuration_file_is_no_error() -> None:
    with millstream() as server:
        server.signal(signal.SIGHUP)
        server.wait_until(lambda: " reloaded " in server.output())
        assert httpx.put(f"{server.url}/s").status_code == 201
