"""The run as JSON, for machines: every check with its rules, outcome and exchange."""

from __future__ import annotations

import json
from typing import Any

from millstream_conformance.server.results import Result, Run
from millstream_conformance.server.rules import RULES


def document(run: Run) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "format": 1,
        "url": run.url,
        "startedAt": run.started_at,
        "elapsedS": round(run.elapsed_s, 3),
        "conforms": run.ok,
        "passed": run.count("passed"),
        "failed": run.count("failed"),
        "skipped": run.count("skipped"),
        "offered": sorted(run.offers.present),
        "notOffered": run.offers.absent(),
        "checks": [_check(result) for result in run.results],
        "rules": {number: rule.text for number, rule in RULES.items()},
    }


def _check(result: Result) -> dict[str, Any]:
    notes = result.check.notes
    return {
        "id": result.check.id,
        "group": result.check.group,
        "title": result.check.title,
        "rules": notes.rules,
        "cases": notes.cases,
        "stricter": notes.stricter,
        "outcome": result.outcome,
        "elapsedS": round(result.elapsed_s, 4),
        "message": result.message,
        "exchange": result.exchange,
    }


def render(run: Run) -> str:
    """The report as text."""
    return json.dumps(document(run), indent=1, ensure_ascii=False) + "\n"
