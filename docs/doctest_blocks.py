"""Examples of docstrings as code: Markdown takes the `>>>` of an interpreter session for quotes.

A hook of mkdocs. It adds a Markdown extension that puts a fence around each session, up to the next empty
line, before Markdown sees it. Docstrings pass through it, too.
"""

from typing import Any

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

BEFORE_FENCES = 100  # superfences has 25; higher comes first


def fenced(lines: list[str]) -> list[str]:
    """Put a fence around each interpreter session."""
    found: list[str] = []
    indent: str | None = None  # of the session that is open
    for line in lines:
        text = line.lstrip()
        if indent is None and text.startswith(">>> "):
            indent = line[: len(line) - len(text)]
            found += ["", f"{indent}```pycon"]
        elif indent is not None and not text:
            found += [f"{indent}```"]
            indent = None
        found.append(line)
    if indent is not None:
        found.append(f"{indent}```")
    return found


class _Sessions(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        return fenced(lines)


class SessionExtension(Extension):
    """Fences interpreter sessions."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register the step."""
        md.preprocessors.register(_Sessions(md), "interpreter_sessions", BEFORE_FENCES)


def on_config(config: Any) -> Any:
    """Add the extension to the site."""
    config["markdown_extensions"].append(SessionExtension())
    return config
