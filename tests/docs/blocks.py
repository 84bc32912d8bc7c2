"""Code blocks of the documentation, and what is known about each."""

import re
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)[^\n`]*$")


class Block(msgspec.Struct, frozen=True):
    """A fenced block: where it begins, in which language, and what it says."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def needs_spark(self) -> bool:
        return self.language == "python" and bool(re.search(r"\bspark\b", self.text))


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """Give the blocks of a page in order; one that is never closed is an error."""
    found: list[Block] = []
    begun: tuple[int, str, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if begun is None and fence:
            begun, lines = (number, fence["language"], fence["indent"]), []
        elif begun is not None and line.strip() == "```":
            found.append(Block(name(page), begun[0], begun[1], "".join(f"{one}\n" for one in lines)))
            begun = None
        elif begun is not None:
            lines.append(line.removeprefix(begun[2]))
    assert begun is None, f"{name(page)}:{begun and begun[0]}: the block is never closed"
    return found


def shown(expected: str) -> "re.Pattern[str]":
    """Make a pattern of an output as a page shows it: `...` is anything in a line, or any lines if alone."""
    parts = [
        r"[\s\S]*" if line.strip() == "..." else re.escape(line.rstrip()).replace(re.escape("..."), ".*")
        for line in expected.strip().splitlines()
    ]
    return re.compile(r"\s*" + "[ ]*\n".join(parts) + r"\s*")
