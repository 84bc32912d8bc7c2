"""Whoever tries an example runs it again: each Python example of the README works any number of times."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.blocks import ROOT, Block, blocks_of
from running import millstream

EXAMPLES = [
    block
    for block in blocks_of(ROOT / "README.md")
    if block.language == "python" and not block.needs_spark and "print(" in block.text
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda block: block.place)
def test_an_example_runs_again_and_again_with_the_same_result(example: Block, tmp_path: Path) -> None:
    with millstream() as server:
        program = tmp_path / "example.py"
        program.write_text(example.text.replace("http://127.0.0.1:4437", server.url))
        printed = []
        for _ in range(3):
            run = subprocess.run(
                [sys.executable, str(program)], capture_output=True, text=True, env=os.environ, timeout=60
            )
            assert (run.returncode, run.stderr) == (0, "")
            printed.append(run.stdout)
    assert printed[0]
    assert printed == printed[:1] * 3
