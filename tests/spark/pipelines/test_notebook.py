"""The notebook of the examples, cell by cell, and the picture that the documentation shows of it."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from millstream.spark import sessions
from running import Server

ROOT = Path(__file__).parents[3]


@pytest.fixture
def drawing() -> ModuleType:
    pytest.importorskip("matplotlib", reason="the notebook needs matplotlib: pip install matplotlib")
    specification = importlib.util.spec_from_file_location("drawing", ROOT / "docs" / "draw_notebook.py")
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_its_cells_run_and_draw_what_was_written(
    spark: SparkSession, server: Server, drawing: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "local_session", lambda name, cores, settings: spark)
    monkeypatch.setenv("MILLSTREAM_URL", "")  # so that it is restored
    bars, lines = drawing.run(drawing.NOTEBOOK, server.url)
    heights = [bar.get_height() for bar in bars.axes[0].patches]
    ends = {line.get_label(): line.get_ydata()[-1] for line in lines.axes[0].lines}
    assert set(ends) == {"vienna", "graz"}
    assert sum(heights) == pytest.approx(sum(ends.values())), "both count every order"
    assert sum(heights) > 20_000


def test_it_is_kept_without_outputs(drawing: ModuleType) -> None:
    cells = json.loads(drawing.NOTEBOOK.read_text())["cells"]
    assert [cell.get("outputs", []) for cell in cells] == [[]] * len(cells)
    assert drawing.PICTURE.exists()
