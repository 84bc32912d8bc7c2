"""`millstream serve`, as a user runs it."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

import forking
from cli.commands import Ended, environment
from millstream.server.settings import fields
from running import announced, millstream, started

SERVE = [sys.executable, "-m", "millstream", "serve"]


def run(*arguments: str, cwd: Path | None = None, **variables: str) -> Ended:
    """Run the command to its end; it must not start a server."""
    done = forking.run([*SERVE, *arguments], environment=environment(**variables), cwd=cwd, timeout_s=20)
    return Ended(done.returncode, done.stdout, done.stderr.decode())


def test_a_new_interpreter_serves_and_refuses_as_well() -> None:
    """Most tests fork a process that has the command loaded; this one does not."""
    refused = subprocess.run(
        [*SERVE, "--port", "x"], env=environment(), capture_output=True, text=True, timeout=30, check=False
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "millstream serve: --port: 'x' is not a whole number.\n"
    command = [*SERVE, "--port", "0", "--store", "memory"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        banner = [server.stdout.readline() for _ in range(4)]
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert re.search(r"listening on +http://127", banner[1])


def test_the_banner_tells_where_the_server_is() -> None:
    with millstream() as server:
        banner = server.output()
        assert version("millstream") in banner
        assert server.url in banner
        assert "memory" in banner
        assert "Ctrl+C" in banner
        assert httpx.get(server.url + "/nowhere").status_code == 404


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server_without_complaint(how: signal.Signals) -> None:
    with millstream() as server:
        server.signal(how)
        assert server.stop() == 0
        assert "Traceback" not in server.output()


@pytest.fixture(scope="module")
def taken() -> Iterator[str]:
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


MEMORY = ("--store", "memory")
WRONG: dict[str, tuple[list[str], dict[str, str], str]] = {
    "a port that is no number": (["--port", "x"], {}, "--port: 'x' is not a whole number"),
    "a port that is too large": (["--port", "70000"], {}, "--port: 70000 is above"),
    "a negative port": (["--port", "-1"], {}, "--port: -1 is below"),
    "a time that is no number": (["--sse-ttl-s", "soon"], {}, "--sse-ttl-s: 'soon' is not a number"),
    "an unknown store": (["--store", "oracle"], {}, "--store: 'oracle' is not one of"),
    "a wrong variable": ([], {"MILLSTREAM_PORT": "x"}, "MILLSTREAM_PORT: 'x' is not a whole number"),
    "a wrong switch": ([], {"MILLSTREAM_COMPRESS": "perhaps"}, "MILLSTREAM_COMPRESS"),
    "a missing file": (["--config", "missing.toml"], {}, "missing.toml cannot be read: No such file"),
    "an unknown key": (["--config", "unknown.toml"], {}, "unknown settings: prot"),
    "a broken file": (["--config", "broken.toml"], {}, "broken.toml is not valid TOML"),
    "a certificate without its key": (["--tls-cert", "cert.pem"], {}, "tls_cert and tls_key"),
    "a certificate that is not there": (
        ["--tls-cert", "cert.pem", "--tls-key", "key.pem", *MEMORY],
        {},
        "--tls-cert, --tls-key: cannot be loaded: ",
    ),
    "a certificate that is not PEM": (
        ["--tls-cert", "broken.toml", "--tls-key", "broken.toml", *MEMORY],
        {},
        "--tls-cert, --tls-key: cannot be loaded: ",
    ),
    "a quota without a number": (
        ["--max-streams", "/chat", *MEMORY],
        {},
        "--max-streams: '/chat' is not a prefix and a number",
    ),
    "an empty secret": (["--auth-secret", "", *MEMORY], {}, "--auth-secret: a secret must not be empty"),
    "an empty secret in a variable": (
        [*MEMORY],
        {"MILLSTREAM_ANYCABLE_SECRET": ""},
        "MILLSTREAM_ANYCABLE_SECRET: a secret must not be empty",
    ),
    "a secret that is too short": (["--auth-secret", "short", *MEMORY], {}, "at least 16 bytes"),
    "a path without a slash": (["--path", "v1"], {}, "path must begin with a slash"),
    "a host that is nowhere": (
        ["--host", "host.invalid", "--insecure", *MEMORY],
        {},
        "cannot listen on host.invalid",
    ),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_wrong_setting_is_one_clear_line_and_code_2(tmp_path: Path, which: str) -> None:
    (tmp_path / "unknown.toml").write_text("prot = 80\n")
    (tmp_path / "broken.toml").write_text("port = \n")
    arguments, variables, complaint = WRONG[which]
    ended = run(*arguments, cwd=tmp_path, **variables)
    assert ended.code == 2
    assert ended.text == ""
    [line] = ended.err.splitlines()
    assert line.startswith("millstream serve: ")
    assert complaint in line


def test_a_port_that_is_in_use_is_one_clear_line_and_code_2(taken: str) -> None:
    ended = run("--port", taken, *MEMORY)
    assert ended.code == 2
    [line] = ended.err.splitlines()
    assert f"cannot listen on 127.0.0.1:{taken}: " in line
    assert "address already in use" in line.lower()


def test_an_unknown_option_is_refused_with_code_2() -> None:
    ended = run("--colour", "green")
    assert ended.code == 2
    assert "--colour" in ended.err


def test_the_option_wins_over_the_variable_and_that_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "millstream.toml"
    config.write_text('path = "/file"\nlong_poll_timeout_ms = 100\ncors_origin = ["https://file.example"]\n')
    command = [*SERVE, "--port", "0", *MEMORY, "--config", str(config), "--path", "/option"]
    variables = {"MILLSTREAM_PATH": "/variable", "MILLSTREAM_CORS_ORIGIN": "https://variable.example"}
    with started(command, announced, variables) as server:
        created = httpx.put(server.url + "/option/s", headers={"Origin": "https://variable.example"})
        assert created.status_code == 201
        assert created.headers["Access-Control-Allow-Origin"] == "https://variable.example"
        waited = httpx.get(server.url + "/option/s?offset=now&live=long-poll", timeout=5)
        assert waited.status_code == 204


def plain(text: str) -> str:
    """Take away what frames and breaks a terminal's help text."""
    return re.sub(r"[^\w.*/,;:\[\]-]+", "", re.sub(r"\x1b\[[0-9;]*m", "", text))


@pytest.mark.parametrize("columns", ["80", "200"])
def test_the_help_lists_every_setting_with_its_variable(columns: str) -> None:
    ended = run("--help", COLUMNS=columns)
    assert ended.code == 0
    text = plain(ended.text)
    for name, _kind, _default, rule in fields():
        assert f"--{name.replace('_', '-')}" in text
        assert plain(rule.help) in text, name
        assert f"MILLSTREAM_{name.upper()}" in text
