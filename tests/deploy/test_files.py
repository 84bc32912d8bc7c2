"""The files in deploy/ name what there is: metrics, options, paths."""

import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from certificates import issue
from millstream.server import settings
from running import announced, durable_millstream, free_port, started

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_WORDS = {
    "sum",
    "rate",
    "by",
    "outcome",
    "max",
    "min",
    "histogram_quantile",
    "le",
    "instance",
    "mode",
    "job",
    "route",
    "version",
}


def test_the_dashboard_asks_for_metrics_that_a_server_has_and_for_all_of_ours() -> None:
    with durable_millstream() as server:
        httpx.put(f"{server.url}/s")
        text = httpx.get(f"{server.url}/__ds/metrics").text
    families = list(text_string_to_metric_families(text))
    samples = {sample.name for family in families for sample in family.samples}
    board = json.loads((DEPLOY / "grafana.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(expressions) > 20
    asked = set()
    for expression in expressions:
        bare = re.sub(r'"[^"]*"|\[[^]]*\]|\$\w+', "", expression)
        asked |= set(re.findall(r"[a-z_]{2,}", bare)) - _WORDS
    if sys.platform == "linux":
        assert asked - samples == set()
    ours = {family.name for family in families if family.name.startswith(("ds_", "millstream_"))}
    assert {name for name in ours if not any(one.startswith(name) for one in asked)} == set()


def test_the_dashboard_fits_its_grid() -> None:
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_the_configuration_file_is_one() -> None:
    loaded = settings.load({}, {}, DEPLOY / "millstream.toml")
    assert (loaded.admin_port, loaded.log_format, loaded.trust_forwarded) == (9437, "json", True)


def _recipe() -> str:
    """The unit that the page about pipelines shows."""
    [unit] = re.findall(
        r"```ini\n(# /etc/systemd.*?)```", (ROOT / "docs" / "pipelines.md").read_text(), re.DOTALL
    )
    return unit


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("millstream.service", (DEPLOY / "millstream.service").read_text()),
        ("archive-orders.service", _recipe()),
    ],
)
def test_systemd_finds_no_fault_with_the_unit(name: str, unit: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit is not verified")
    command = "/opt/millstream/bin/millstream"
    assert unit.count(command) == 1
    (tmp_path / name).write_text(unit.replace(command, shutil.which("true") or "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert name not in verified.stderr
    assert verified.returncode == 0, verified.stderr


def test_the_unit_runs_a_command_that_there_is() -> None:
    unit = (DEPLOY / "millstream.service").read_text()
    [line] = re.findall(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)
    verb, option, path = line.split()
    assert (verb, option, path) == ("serve", "--config", "/etc/millstream/millstream.toml")
    assert "StateDirectory=millstream\n" in unit
    loaded = settings.load({}, {}, DEPLOY / "millstream.toml")
    assert loaded.data == "/var/lib/millstream"


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2]) for line in lines]


def test_what_the_image_copies_is_there() -> None:
    sources = [
        source
        for instruction, rest in instructions()
        if instruction == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    ]
    assert "src" in sources
    assert all((ROOT / source).exists() for source in sources)


def ignored(path: str) -> bool:
    """Whether the builder is not given a file: the last rule of .dockerignore that matches decides."""
    decided = False
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        if not rule or rule.startswith("#"):
            continue
        pattern = rule.lstrip("!").replace("**/", "*")
        parents = [path, *map(str, Path(path).parents)]
        if any(fnmatch.fnmatch(one, pattern) for one in parents if one != "."):
            decided = not rule.startswith("!")
    return decided


def test_the_builder_is_given_what_the_image_copies_and_nothing_else() -> None:
    for needed in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "src/millstream/cli/main.py"):
        assert not ignored(needed), needed
    for unneeded in (
        ".git/config",
        ".venv/bin/python",
        "data/catalog.db",
        "tests/running.py",
        "docs/limits.md",
    ):
        assert ignored(unneeded), unneeded
    assert ignored("src/millstream/__pycache__/aio.cpython-311.pyc")


def variables_of_the_image() -> dict[str, str]:
    words = [word for name, rest in instructions() if name == "ENV" for word in shlex.split(rest)]
    return dict(word.split("=", 1) for word in words if word.startswith("MILLSTREAM_"))


def in_the_image(folder: Path, admin_port: int) -> dict[str, str]:
    """The image's variables, but for its addresses, its port and its folder."""
    there = variables_of_the_image()
    assert (there["MILLSTREAM_DATA"], there["MILLSTREAM_ADMIN_PORT"]) == ("/data", "9437")
    assert there["MILLSTREAM_HOST"] == there["MILLSTREAM_ADMIN_HOST"] == "0.0.0.0"
    return {
        **there,
        "MILLSTREAM_DATA": str(folder),
        "MILLSTREAM_HOST": "127.0.0.1",
        "MILLSTREAM_ADMIN_HOST": "127.0.0.1",
        "MILLSTREAM_ADMIN_PORT": str(admin_port),
        "MILLSTREAM_AUTH_SECRET": "a secret that is long enough for it",
    }


def checked(pid: int, variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run the image's health check, with the server's process in the place of 1."""
    check = json.loads(dict(instructions())["HEALTHCHECK"].partition("CMD ")[2])
    assert check == ["millstream", "health", "--pid", "1"]
    command = [sys.executable, "-m", *check[:-1], str(pid)]
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.skipif(sys.platform != "linux", reason="containers are Linux")
@pytest.mark.parametrize(
    "changed", ["nothing", "port and path", "no admin port", "TLS", "config", "draining"]
)
def test_the_health_check_works_whatever_the_command(changed: str, tmp_path: Path) -> None:
    found = dict(instructions())
    assert json.loads(found["ENTRYPOINT"]) == ["millstream", "serve"]
    assert {"4437", "9437"} == set(found["EXPOSE"].split())
    variables = in_the_image(tmp_path / "data", free_port())
    port = str(free_port())
    (tmp_path / "some.toml").write_text(f'path = "/v1"\nport = {port}\nadmin_port = {free_port()}\n')
    arguments = {
        "nothing": ["--port", "0"],
        "port and path": ["--port", port, "--path", "/v1/stream", "--admin-port", "0"],
        "no admin port": ["--port", port, "--admin-port=0"],
        "TLS": ["--port", port, "--admin-port", "0"],
        "config": ["--config", "some.toml"],
        "draining": ["--port", port, "--drain-timeout-s", "30"],
    }[changed]
    if changed == "TLS":
        cert, key = issue(tmp_path, "streams.example.com")
        arguments += ["--tls-cert", str(cert), "--tls-key", str(key)]
    if changed == "config":
        variables = {name: value for name, value in variables.items() if "PORT" not in name}
    command = ["env", f"--chdir={tmp_path}", sys.executable, "-m", "millstream", "serve", *arguments]
    with started(command, announced, variables) as server:
        ended = checked(server.pid, variables)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert json.loads(ended.stdout)["status"] == "ready"
        if changed == "draining":
            with socket.create_connection(("127.0.0.1", int(port))) as connection:
                connection.sendall(b"POST /s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
                os.kill(server.pid, signal.SIGTERM)
                server.wait_until(lambda: checked(server.pid, variables).returncode == 1)
                ended = checked(server.pid, variables)
                assert "draining" in ended.stderr
    ended = checked(os.getpid(), variables)  # no server at all
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1


def test_an_open_address_needs_a_secret_in_the_image(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MILLSTREAM_")}
    environment |= variables_of_the_image() | {"MILLSTREAM_DATA": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-m", "millstream", "serve"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=20,
        check=False,
    )
    assert ran.returncode == 2
    assert "--auth-secret" in ran.stderr


def test_compose_names_what_there_is() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    build = services["millstream"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).exists()
    known = {settings.VARIABLE_PREFIX + name.upper() for name, *_ in settings.fields()}
    assert set(services["millstream"]["environment"]) <= known
    [scraped] = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    assert scraped["static_configs"][0]["targets"] == ["millstream:9437"]
