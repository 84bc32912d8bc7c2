"""The page of the Python API: examples in docstrings are code, not quotes."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs.blocks import ROOT


@pytest.mark.skipif(
    find_spec("mkdocs") is None, reason="the pages are built by mkdocs: make docs installs it"
)
def test_interpreter_sessions_are_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120, capture_output=True)
    page = (tmp_path / "python" / "index.html").read_text()
    assert "<blockquote>" not in page
    assert page.count("&gt;&gt;&gt;") > 50
