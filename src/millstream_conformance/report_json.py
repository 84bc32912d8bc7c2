"""The run as JSON, for programs: every check with its rules, outcome and exchange."""

from __future__ import annotations

import json
from typing import Any

from millstream_conformance.results import OUTCOMES, Result, Run
from millstream_conformance.rules import Check

SUBJECTS = {"server": "url", "client": "command"}


def document(run: Run[Check]) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "format": 1,
        "suite": run.suite,
        SUBJECTS[run.suite]: run.subject,
        "startedAt": run.started_at,
        "elapsedS": round(run.elapsed_s, 3),
        "conforms": run.conforms,
        "strict": run.strict,
        "ok": run.ok,
        **{outcome: run.count(outcome) for outcome in OUTCOMES},
        "required": {outcome: run.count(outcome, stricter=False) for outcome in OUTCOMES},
        "stricter": {outcome: run.count(outcome, stricter=True) for outcome in OUTCOMES},
        "retried": len(run.retried),
        "offered": sorted(run.present),
        "notOffered": run.absent,
        "checks": [_check(result) for result in run.results],
        "rules": {number: rule.text for number, rule in run.rules.items()},
    }


def _check(result: Result[Check]) -> dict[str, Any]:
    notes = result.check.notes
    return {
        "id": result.check.id,
        "group": result.check.group,
        "title": result.check.title,
        "rules": list(notes.rules),
        "cases": list(notes.cases),
        "stricter": notes.stricter,
        "outcome": result.outcome,
        "tries": result.tries,
        "elapsedS": round(result.elapsed_s, 4),
        "message": result.message,
        "exchange": result.exchange,
    }


def render(run: Run[Check]) -> str:
    """The report as text."""
    return json.dumps(document(run), indent=1, ensure_ascii=False) + "\n"
