"""Verdicts: which failures count, how often a check is tried, and that every report says so."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from millstream_conformance import report_html, report_json, report_junit
from millstream_conformance.console import Console
from millstream_conformance.results import Outcome, tally
from millstream_conformance.server import Check, Result, Run
from millstream_conformance.server.checks import Notes, discover, each, notes_of, rows_of, rule, stricter
from millstream_conformance.server.offers import Offers
from millstream_conformance.server.servers import Server
from millstream_conformance.server.suites import Suite


def check_named(name: str, function: Callable[[Server], None], notes: Notes) -> Check:
    return Check("group", name, "", function, {}, notes)


def result(name: str, outcome: Outcome, *, stricter: bool = False, tries: int = 1) -> Result:
    notes = Notes(rules=["A5"], stricter="readers like it" if stricter else "")
    message = "the first try failed:\ntoo slow" if tries > 1 else f"{outcome} because"
    return Result(check_named(name, lambda server: None, notes), outcome, message, tries=tries)


def run_of(*results: Result, strict: bool = False) -> Run:
    run = Run("http://server.example", Offers(frozenset()), strict=strict)
    run.results = list(results)
    return run


def printed(run: Run) -> str:
    output = io.StringIO()
    console = Console(output)
    for each_result in run.results:
        console.show(each_result)
    console.end(run)
    return output.getvalue()


# -- Stricter checks ---------------------------------------------------------------------------------

PASSED, FAILED, SKIPPED = result("a", "passed"), result("b", "failed"), result("c", "skipped")
STRICT_PASSED, STRICT_FAILED = result("d", "passed", stricter=True), result("e", "failed", stricter=True)


@pytest.mark.parametrize(
    ("results", "conforms", "ok_when_strict"),
    [
        ([PASSED, SKIPPED, STRICT_PASSED], True, True),
        ([PASSED, STRICT_FAILED], True, False),
        ([STRICT_FAILED], True, False),
        ([PASSED, FAILED], False, False),
        ([SKIPPED], False, False),
        ([], False, False),
    ],
)
def test_only_required_checks_decide_unless_strict(
    results: list[Result], conforms: bool, ok_when_strict: bool
) -> None:
    run, strict = run_of(*results), run_of(*results, strict=True)
    assert (run.conforms, run.ok) == (conforms, conforms)
    assert (strict.conforms, strict.ok) == (conforms, ok_when_strict)


def test_totals_tell_required_and_stricter_apart() -> None:
    results = [PASSED, PASSED, FAILED, STRICT_PASSED, STRICT_FAILED, STRICT_FAILED, SKIPPED]
    assert tally(results) == "2 passed, 1 failed; stricter: 1 passed, 2 failed; 1 skipped"
    assert tally([PASSED]) == "1 passed"
    assert tally([]) == "nothing ran"


def test_every_report_tells_stricter_failures_apart() -> None:
    run = run_of(PASSED, STRICT_FAILED)
    text = printed(run)
    assert "FAILED (stricter) group/e" in text
    assert "stricter than the protocol's text: readers like it" in text
    assert "conforms: 1 passed; stricter: 1 failed" in text

    data = report_json.document(run)
    assert (data["conforms"], data["strict"], data["ok"]) == (True, False, True)
    assert data["required"] == {"passed": 1, "failed": 0, "skipped": 0}
    assert data["stricter"] == {"passed": 0, "failed": 1, "skipped": 0}

    page = report_html.render(run)
    assert "This server conforms.<small>1 stricter check fails</small>" in page

    [suite] = ET.fromstring(report_junit.render(run))
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    skipped = suite.find("testcase[@name='e']/skipped")
    assert skipped is not None
    assert "stricter than the protocol's text" in skipped.get("message", "")


def test_strict_reports_count_stricter_failures() -> None:
    run = run_of(PASSED, STRICT_FAILED, strict=True)
    assert "failed because of --strict" in printed(run)
    assert report_json.document(run)["ok"] is False
    assert "the run failed because it was strict" in report_html.render(run)
    [suite] = ET.fromstring(report_junit.render(run))
    assert suite.get("failures") == "1"


def test_single_rows_can_be_stricter() -> None:
    @rule("C3")
    @each("value", {"plain": 1, "odd": 2})
    @stricter("the text is silent", rows=["odd"])
    def test(server: Server, value: int) -> None:
        """Nothing."""

    marked = {row: notes_of(test).of_row(row).stricter for row, _ in rows_of(test)}
    assert marked == {"plain": "", "odd": "the text is silent"}


def test_every_stricter_check_says_why() -> None:
    checks = [check for check in discover() if check.notes.stricter]
    assert len(checks) > 100
    assert all(len(check.notes.stricter) > 10 for check in checks)


# -- Tries -------------------------------------------------------------------------------------------


def tried(failures: int, *, patient: bool, **options: Any) -> Result:
    """The result of a check that fails the given number of times."""
    runs = 0

    def check(_: Server) -> None:
        nonlocal runs
        runs += 1
        assert runs > failures, f"failure {runs}"

    made = check_named("name", check, Notes(rules=["A5"], patient=patient))
    suite = Suite("http://127.0.0.1:1", offers=Offers(frozenset()), **options)
    try:
        suite.start([made])
        return suite.run(made)
    finally:
        suite.close()


@pytest.mark.parametrize("patient", [False, True])
def test_a_check_is_tried_once_by_default(patient: bool) -> None:
    failed = tried(1, patient=patient)
    assert (failed.outcome, failed.tries) == ("failed", 1)


@pytest.mark.parametrize("patient", [False, True])
def test_a_further_try_is_reported(patient: bool) -> None:
    passed = tried(2, tries=3, patient=patient)
    assert (passed.outcome, passed.tries, passed.was_retried) == ("passed", 3, True)
    assert passed.message.startswith("the first try failed:\n")
    assert "failure 1" in passed.message


def test_a_check_that_always_fails_has_failed_in_each_try() -> None:
    failed = tried(3, tries=3, patient=True)
    assert (failed.outcome, failed.tries) == ("failed", 3)
    assert "failed in each of 3 tries" in printed(run_of(failed))


def test_every_report_names_a_further_try() -> None:
    run = run_of(PASSED, result("slow", "passed", tries=2))
    text = printed(run)
    assert "passed on try 2: group/slow" in text
    assert "1 of the passed checks needed a further try" in text

    data = json.loads(report_json.render(run))
    assert data["retried"] == 1
    assert [check["tries"] for check in data["checks"]] == [1, 2]
    assert "too slow" in data["checks"][1]["message"]

    [suite] = ET.fromstring(report_junit.render(run))
    [tries] = suite.findall(".//property[@name='tries']")
    assert tries.get("value") == "2"
    assert "too slow" in (suite.findtext("testcase[@name='slow']/system-out") or "")

    page = report_html.render(run)
    assert "1 passed only after a further try" in page
    assert "2 tries" in page
