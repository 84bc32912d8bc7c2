"""The files in deploy/ name what there is: metrics, options, paths."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from millstream.server import settings
from running import announced, durable_millstream, free_port, started

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_WORDS = {
    "sum",
    "rate",
    "by",
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


def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit is not verified")
    unit = (DEPLOY / "millstream.service").read_text()
    command = "/opt/millstream/bin/millstream"
    assert unit.count(command) == 1
    (tmp_path / "millstream.service").write_text(unit.replace(command, shutil.which("true") or "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "millstream.service")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "millstream.service" not in verified.stderr
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


def test_the_command_of_the_image_serves_and_is_found_healthy(tmp_path: Path) -> None:
    """As the container would run it, but for its ports and its folder."""
    found = dict(instructions())
    admin_port = str(free_port())
    entry, arguments = json.loads(found["ENTRYPOINT"]), json.loads(found["CMD"])
    assert entry == ["millstream", "serve"]
    assert {"4437", "9437"} == set(found["EXPOSE"].split())
    arguments = [{"/data": str(tmp_path), "9437": admin_port}.get(word, word) for word in arguments]
    arguments = ["127.0.0.1" if word == "0.0.0.0" else word for word in arguments]
    command = [sys.executable, "-m", *entry, *arguments, "--port", "0"]
    with started(command, announced, {"MILLSTREAM_AUTH_SECRET": "a secret that is long enough"}):
        check = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])
        program = check[-1].replace("9437", admin_port)
        assert check[:2] == ["python", "-c"]
        subprocess.run([sys.executable, "-c", program], check=True, timeout=20)
    dead = subprocess.run([sys.executable, "-c", program], check=False, timeout=20, capture_output=True)
    assert dead.returncode != 0


def test_an_open_address_needs_a_secret_in_the_image(tmp_path: Path) -> None:
    arguments = json.loads(dict(instructions())["CMD"])
    arguments = [{"/data": str(tmp_path)}.get(word, word) for word in arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MILLSTREAM_")}
    ran = subprocess.run(
        [sys.executable, "-m", "millstream", "serve", *arguments],
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
