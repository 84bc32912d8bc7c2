"""The README's figures are written by `python -m bench.readme`, and by nobody else."""

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SAMPLE = {"value": 1000.0, "cpu_us": 20.0, "p50_ms": 1.0, "p99_ms": 2.0, "reader_cpu_share": None}
MACHINE = {
    "cpu": "AMD EPYC",
    "cores": "2",
    "kernel": "Linux 6.1-x",
    "python": "3.11",
    "syncs of 4 KiB": "9/s",
    "date": "2030-01-01 00:00 UTC",
}


@pytest.fixture
def readme(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("bench.readme")


def test_every_row_is_a_scenario_that_all_can_take_part_in(readme: Any) -> None:
    scenarios = importlib.import_module("bench.scenarios").ALL
    assert set(readme.ROWS) <= set(scenarios)
    assert not any(scenarios[name].only_ours for name in readme.ROWS)


def test_the_table_names_both_peers_and_keeps_the_text_around_it(readme: Any) -> None:
    result = {
        "scenario": "synced-64",
        "unit": "appends/s",
        "samples": {"millstream": [SAMPLE] * 3, "reference": [SAMPLE] * 3, "electric": [SAMPLE] * 3},
        "times_better": {"reference": [1.0, 1.5, 2.0], "electric": [0.9, 1.0, 1.1]},
    }
    table = readme.written({"machine": MACHINE, "results": [result]})
    assert "reference (Node)" in table
    assert "Electric" in table
    cells = ["append 50 to 150 B, 64 connections", *["1,000/s, 20.0 µs of CPU"] * 3]
    assert f"| {' | '.join([*cells, '1.50 (1.00..2.00)', '1.00 (0.90..1.10)'])} |" in table
    before = README.read_text()
    after = readme.replaced(before, table)
    assert table in after
    assert after.partition(readme.BEGIN)[0] == before.partition(readme.BEGIN)[0]
    assert after.partition(readme.END)[2] == before.partition(readme.END)[2]
