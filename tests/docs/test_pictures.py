"""The pictures of the README show what is there."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_BYTES = 200 * 1024


def test_the_recorded_terminal_is_what_the_commands_print(tmp_path: Path) -> None:
    path = ROOT / "docs" / "record_terminal.py"
    specification = importlib.util.spec_from_file_location("record_terminal", path)
    assert specification
    assert specification.loader
    recording = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(recording)
    assert recording.record(tmp_path) == recording.PICTURE.read_text(), "run docs/record_terminal.py"


def test_the_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").iterdir()}
    assert {"page.png", "terminal.svg"} <= sizes.keys()
    assert {name for name, size in sizes.items() if size > MAX_BYTES} == set()


def test_the_readme_links_to_what_is_there() -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / "README.md").read_text())
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []
