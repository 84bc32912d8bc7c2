"""Reports by name, and where they are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from millstream_conformance import report_html, report_json, report_junit
from millstream_conformance.results import Run
from millstream_conformance.rules import Check

RENDERERS = {"json": report_json.render, "junit": report_junit.render, "html": report_html.render}
SUFFIXES = {"json": ".json", "junit": ".xml", "html": ".html"}


def words(given: str | Iterable[str]) -> list[str]:
    """A list, or one string with commas, as a list of words."""
    found = given.split(",") if isinstance(given, str) else given
    return [word.strip() for word in found if word.strip()]


def chosen(report: str | Iterable[str]) -> list[str]:
    """The names of the wanted reports; ValueError for an unknown one."""
    names = words(report)
    if unknown := [name for name in names if name not in RENDERERS]:
        raise ValueError(f"no report {unknown[0]!r}; there are {', '.join(RENDERERS)}")
    return names


def write(run: Run[Check], names: Sequence[str], path: str | Path | None) -> list[Path]:
    """Write the reports and return their paths, by default `conformance-{suite}` in this directory."""
    written = []
    for name in names:
        target = Path(path) if path and len(names) == 1 else _beside(path or f"conformance-{run.suite}", name)
        target.write_text(RENDERERS[name](run), encoding="utf-8")
        written.append(target)
    return written


def _beside(path: str | Path, name: str) -> Path:
    return Path(path).with_suffix(SUFFIXES[name])
