"""The reference pages say what is there: every setting, metric, command, header and public name."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

import millstream
import millstream.aio
from millstream.protocol import headers
from millstream.server import settings
from millstream.server.telemetry import engine_metrics
from millstream.spark.options import Option, SinkOptions, SourceOptions, declared
from millstream.store.log.catalog.versions import VERSION
from millstream.store.measures import ReplicaMeasures
from running import durable_millstream

DOCS = Path(__file__).parents[2] / "docs"


def setting_row(name: str, default: object, help: str) -> str:
    shown = ", ".join(default) if isinstance(default, tuple) else default
    shown = f"`{shown}`" if shown not in ("", False) else ""
    option = f"`--{name.replace('_', '-')}`"
    return f"| {option} | `{settings.VARIABLE_PREFIX}{name.upper()}` | {shown} | {help} |"


def test_the_settings_page_has_every_setting_as_it_is_declared() -> None:
    rows = [setting_row(name, default, rule.help) for name, _, default, rule in settings.fields()]
    page = (DOCS / "settings.md").read_text().splitlines()
    missing = [row for row in rows if row not in page]
    assert not missing, "docs/settings.md lacks these rows:\n" + "\n".join(missing)
    stale = [row for row in page if row.startswith("| `--") and row not in rows]
    assert not stale, "docs/settings.md has these rows of settings that are no more:\n" + "\n".join(stale)


def test_the_operations_page_names_every_metric_and_no_other() -> None:
    with durable_millstream() as server:
        httpx.put(f"{server.url}/s")
        text = httpx.get(f"{server.url}/__ds/metrics").text
    exposed = {family.name: family.type for family in text_string_to_metric_families(text)}
    with_replica = engine_metrics.replica_metrics(ReplicaMeasures(lag_s=1.0))  # of no log store
    exposed |= {family.name: family.type for family in with_replica}
    names = {name + "_total" if kind == "counter" else name for name, kind in exposed.items()}
    ours = {name for name in names if name.startswith(("ds_", "millstream_"))}
    named = set(re.findall(r"`((?:ds|millstream)_\w+)`", (DOCS / "operations.md").read_text()))
    assert named == ours


def test_the_commands_page_names_every_command() -> None:
    page = (DOCS / "commands.md").read_text()
    helped = subprocess.run(
        [sys.executable, "-m", "millstream", "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    listed = helped.stdout.partition("Commands")[2].splitlines()[1:]
    commands = {line.strip(" │|").split()[0] for line in listed if line.strip(" │|╰─╯")}
    assert {"serve", "token", "check", "conformance"} <= commands
    assert not {command for command in commands if f"millstream {command}" not in page}


def spark_row(option: Option) -> str:
    shown = option.shown if not option.shown or "`" in option.shown else f"`{option.shown}`"
    return f"| `{option.name}` | {shown} | {option.help} |"


def test_the_spark_page_has_every_option_for_reading_as_it_is_declared() -> None:
    page = (DOCS / "spark.md").read_text().partition("## Options for reading")[2].partition("\n## ")[0]
    rows = {spark_row(option) for option in declared(SourceOptions)}
    shown = {line for line in page.splitlines() if line.startswith("| `")}
    assert shown == rows


def test_the_spark_page_has_every_option_for_writing_as_it_is_declared() -> None:
    page = (DOCS / "spark.md").read_text().partition("### Options for writing")[2].partition("\n### ")[0]
    rows = {spark_row(option) for option in declared(SinkOptions)}
    shown = {line for line in page.splitlines() if line.startswith("| `")}
    assert shown == rows


def test_the_headers_page_has_every_header_of_the_protocol() -> None:
    known = {value.decode() for value in vars(headers).values() if isinstance(value, bytes)}
    ours, _, of_http = (DOCS / "headers.md").read_text().partition("## Of HTTP itself")
    rows = {row.lower() for row in re.findall(r"^\| `([\w-]+)` \|", ours, re.MULTILINE)}
    assert {"content-type", "stream-closed"} <= known
    assert known - rows == set(), "docs/headers.md lacks these"
    assert rows - known == set(), "docs/headers.md has rows of headers that are no more"
    assert of_http


def shown_names(module: str) -> set[str]:
    """What the API page shows of a module: the members that it lists, or everything that is public."""
    found: set[str] = set()
    for directive in re.split(r"^::: ", (DOCS / "python.md").read_text(), flags=re.MULTILINE)[1:]:
        of, _, options = directive.partition("\n")
        members = re.search(r"members: \[([^]]*)\]", options)
        if of == module:
            assert members, f"{module}: list the members, or it shows what it only imports"
            found |= {name.strip() for name in members[1].split(",")}
        elif not members:
            there = vars(importlib.import_module(of)).items()
            found |= {name for name, value in there if getattr(value, "__module__", None) == of}
    return found


def test_the_api_page_shows_every_public_name() -> None:
    shown = shown_names("millstream")
    assert set(millstream.__all__) - shown == set(), "docs/python.md lacks these names of millstream"
    twins = {
        name for name in millstream.aio.__all__
        if getattr(millstream.aio, name) is not getattr(millstream, name, None)
    }  # fmt: skip
    assert twins - shown_names("millstream.aio") == set(), (
        "docs/python.md lacks these names of millstream.aio"
    )


def test_the_compatibility_page_has_every_format_of_data_folders() -> None:
    rows = re.findall(r"^\| (\d+) \|", (DOCS / "compatibility.md").read_text(), re.MULTILINE)
    missing = {str(format) for format in range(1, VERSION + 1)} - set(rows)
    assert not missing, f"docs/compatibility.md lacks these formats: {missing}"
