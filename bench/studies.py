"""Studies: many figures about our own server, in a table with a column for each size or phase.

A scenario compares contenders by one number. A study answers "what does it cost, and where": rate, processor
time, latencies, disk, memory, side by side, each beside the bound that it must keep.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.rounds import Effort, Progress


@dataclass
class Figure:
    """One line: a number for each column, and the most that it should be there."""

    title: str
    values: dict[str, float] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)

    def cell(self, column: str) -> str:
        value, bound = self.values.get(column), self.bounds.get(column)
        if value is None:
            return ""
        if bound is None:
            return _number(value)
        return f"{_number(value)} {'!' if value > bound else ' '}"


@dataclass
class Findings:
    """What a study has found, and what it could not measure."""

    columns: list[str]
    figures: list[Figure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Study:
    """One question with many figures."""

    name: str
    title: str
    run: Callable[[Effort, Progress], Findings]


def render(study: Study, findings: Findings) -> Table:
    """One row for each figure; a number beyond its bound has an exclamation mark."""
    remarks = ["!: beyond the bound.", *findings.remarks]
    table = Table("", title=study.title, caption="\n".join(remarks))
    for column in [*findings.columns, "at most"]:
        table.add_column(column, justify="right", no_wrap=True)
    for figure in findings.figures:
        bounds = " / ".join(_number(bound) for bound in dict.fromkeys(figure.bounds.values()))
        table.add_row(figure.title, *(figure.cell(column) for column in findings.columns), bounds)
    return table


def save(path: Path, found: Mapping[str, Findings]) -> None:
    """Add the figures to the file that has the samples of the scenarios."""
    document = json.loads(path.read_text())
    document["studies"] = {
        name: {
            "remarks": findings.remarks,
            "figures": [_as_json(figure) for figure in findings.figures],
        }
        for name, findings in found.items()
    }
    path.write_text(json.dumps(document, indent=2) + "\n")


def _as_json(figure: Figure) -> dict[str, Any]:
    return {"title": figure.title, "values": figure.values, "bounds": dict(figure.bounds)}


def _number(value: float) -> str:
    """Three digits that matter; none invented."""
    if abs(value) >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
