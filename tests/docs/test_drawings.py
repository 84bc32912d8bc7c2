"""The drawings of what is on the disk are those of the sources: one that changes there changes here, too."""

import ast
import re
import textwrap

import pytest

from docs.blocks import ROOT, Block, blocks_of

PAGES = [ROOT / "docs" / "design" / name for name in ("disk.md", "packs.md")]
SOURCES = ROOT / "src" / "millstream" / "store" / "log"


def drawings_of_the_sources() -> set[str]:
    """Every indented block of a module's docstring."""
    found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        found.update(map(textwrap.dedent, re.findall(r"(?:^ +\S.*\n)+", f"{docstring}\n", re.MULTILINE)))
    return found


@pytest.mark.parametrize(
    "block", [block for page in PAGES for block in blocks_of(page)], ids=lambda block: block.place
)
def test_a_drawing_is_one_of_the_sources(block: Block) -> None:
    assert block.text in drawings_of_the_sources(), f"{block.place}: no docstring in store/log draws this"
