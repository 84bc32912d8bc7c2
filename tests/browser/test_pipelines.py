"""Pipelines on the page: whether each runs, how far it is, and what it set aside, as they report it."""

import importlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from browser.test_hostile import SCRIPTS
from browser.watching import JSON, PHONE, WIDE, Watched, append, http, violations
from running import Server, millstream

PROGRESS: dict[str, Any] = {
    "batch": 0,
    "batchRows": 1000,
    "rows": 1000,
    "batches": 1,
    "deadLetters": 0,
    "lateRows": 0,
    "expectations": {},
    "duplicates": 0,
    "lagBytes": 0,
    "seconds": 2.5,
}
COLUMNS = 8
"""Those of the table without the last, which changes with the clock."""


def report(event: str = "batch", ago_s: float = 0, **changes: Any) -> dict[str, Any]:
    """One report, as `millstream.spark.reports` writes it."""
    now = datetime.now(UTC)

    def before(seconds: float) -> str:
        return (now - timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    return {
        "event": event,
        "pipeline": "archive",
        "source": "orders/*",
        "target": "./orders",
        "run": "one",
        "host": "worker-1",
        "startedAt": before(ago_s + 10),
        "batchAt": before(ago_s),
        "withinSeconds": 30,
        "at": before(ago_s),
        **PROGRESS,
    } | changes


def publish(server: Server, *reports: Any, to: str = "/_pipelines") -> None:
    http.put(f"{server.url}{to}", headers=JSON).raise_for_status()
    append(server, to, json.dumps(reports), JSON)


def open_pipelines(watched: Watched, server: Server, below: str = "") -> Any:
    watched.page.goto(f"{server.url}/__ds/ui#/pipelines{below}")
    return watched.page


def wait_for_rows(watched: Watched, expected: list[list[str]]) -> None:
    watched.page.wait_for_function(
        "([columns, want]) => JSON.stringify([...document.querySelectorAll('#pipelines-rows tr')]"
        ".map(row => [...row.cells].slice(0, columns).map(cell => cell.textContent))) === want",
        arg=[COLUMNS, json.dumps(expected, separators=(",", ":"), ensure_ascii=False)],
    )


def facts(watched: Watched) -> dict[str, str]:
    found: dict[str, str] = watched.page.eval_on_selector_all(
        "#pipelines-facts dd", "all => Object.fromEntries(all.map(dd => [dd.dataset.fact, dd.textContent]))"
    )
    return found


def test_the_records_of_these_tests_are_those_of_the_pipelines(server: Server) -> None:
    try:
        reports = importlib.import_module("millstream.spark.reports")
    except ImportError as missing:
        pytest.skip(f"pipelines cannot be loaded here: {missing.name}")
    with reports.Reports(
        server.url, pipeline="archive", source="in", target="out", stream="/real"
    ) as reported:
        reported(msgspec.convert(PROGRESS, reports.Progress))
    written = http.get(f"{server.url}/real").json()
    assert written[-1].keys() == report().keys()
    assert written[0].keys() == report().keys() - PROGRESS.keys()


def test_pipelines_are_shown_as_they_report(browser: Any, watched: Watched) -> None:
    orders = "archive orders/* → ./orders"
    with millstream() as server:
        page = watched.open(server)
        page.click("#pipelines-open")
        page.wait_for_selector("#pipelines-hint:not([hidden])")
        assert page.text_content("#pipelines-option") == "--report _pipelines"
        publish(server, report("start", rows=None, lagBytes=None, batchAt=None))
        wait_for_rows(watched, [[orders, "running", "–", "–", "–", "0", "0", "–"]])
        publish(
            server,
            report(rows=2000, lagBytes=2048, lateRows=2, deadLetters=3, expectations={"positive": 4}),
            report("start", pipeline="derive", target=None, rows=None, lagBytes=None, run="two"),
        )
        page.wait_for_function("() => document.querySelectorAll('#pipelines-rows tr').length === 2")
        first = page.eval_on_selector_all(
            "#pipelines-rows tr:first-child > *", "cells => cells.map(cell => cell.textContent)"
        )
        assert [*first[:3], *first[4:8]] == [orders, "running", "2 KiB", "2,000", "2", "3", "4"]
        assert first[8] == "now"
        assert page.text_content("#pipelines-name") == orders
        told = facts(watched)
        assert (told["Rows"], told["Late rows"], told["Dead letters"]) == ("2,000", "2", "3")
        assert (told["Host"], told["Unmet: positive"]) == ("worker-1", "4")
        assert page.is_hidden("#pipelines-problem")
        publish(server, report("failed", error="no room left", rows=2500))
        wait_for_rows(
            watched,
            [
                [orders, "failed", "0 B", "–", "2,500", "0", "0", "0"],
                ["derive orders/*", "running", "–", "–", "–", "0", "0", "–"],
            ],
        )
        assert page.text_content("#pipelines-problem") == "It failed: no room left"
        publish(server, report("start", run="three", rows=None), report("done", run="three", rows=10))
        wait_for_rows(
            watched,
            [
                ["derive orders/*", "running", "–", "–", "–", "0", "0", "–"],
                [orders, "done", "0 B", "–", "10", "0", "0", "0"],
            ],
        )
        assert page.text_content("#pipelines-name") == orders, "what is plotted stays the same"
        lines = page.eval_on_selector_all(
            "#pipelines-charts .line", "all => all.map(line => line.getAttribute('d'))"
        )
        assert [line.count("M") for line in lines] == [1, 2, 2], "what is not known is a gap"
        assert page.text_content("#pipelines-counts") == "6 reports"


def test_a_pipeline_that_says_nothing_for_long_is_silent(server: Server, watched: Watched) -> None:
    publish(
        server,
        report(ago_s=600, pipeline="killed"),
        report("done", ago_s=600, pipeline="ended"),
        report("stopped", ago_s=600, pipeline="stopped"),
        report("alive", ago_s=60, pipeline="idle"),
        report("alive", ago_s=600, pipeline="patient", withinSeconds=3600),
        to="/silence",
    )
    page = open_pipelines(watched, server, "/silence")
    page.wait_for_selector("#pipelines-rows tr")
    states = page.eval_on_selector_all(
        "#pipelines-rows tr", "rows => rows.map(r => [...r.cells].slice(0, 2).map(c => c.textContent))"
    )
    assert [[name.split()[0], state] for name, state in states] == [
        ["killed", "silent"],
        ["idle", "running"],
        ["patient", "running"],
        ["stopped", "stopped"],
        ["ended", "done"],
    ]
    said = page.text_content("#pipelines-problem")
    assert said.startswith("It reported 10 min ago for the last time, and should do so every 30 s.")


def test_a_clock_that_is_wrong_makes_nobody_silent_who_reports_now(server: Server, watched: Watched) -> None:
    publish(server, report(ago_s=4000, pipeline="earlier"), to="/clocks")
    page = open_pipelines(watched, server, "/clocks")
    page.wait_for_selector("#pipelines-rows .badge[data-status=silent]")
    publish(server, report(ago_s=3990, pipeline="earlier"), to="/clocks")
    page.wait_for_selector("#pipelines-rows .badge[data-status=running]")


def test_hostile_reports_stay_text(server: Server, watched: Watched) -> None:
    odd = {"toString": "x", "__proto__": {"rows": 1}}
    wrong: list[Any] = [report() | {key: odd} for key in ("event", "pipeline", "source", "run", "at")]
    wrong += [report("toString"), report("__proto__"), None, [], 7, {}]
    publish(
        server,
        *(
            report("failed", pipeline=s, source=s, target=s, host=s, error=s, expectations={s: 3})
            for s in SCRIPTS
        ),
        *wrong,
        report(pipeline="__proto__", source="\u202etxt.exe", target=odd, expectations=odd, rows="many"),
        report(pipeline="huge", rows=10**300, lagBytes=2**53 - 1, expectations={"x" * 5000: 1}),
        report(pipeline="p" * 5000, source="s" * 5000, startedAt="never", batchAt=-1, withinSeconds=-1),
        to="/hostile",
    )
    page = open_pipelines(watched, server, "/hostile")
    page.wait_for_function(
        f"() => document.querySelectorAll('#pipelines-rows tr').length === {len(SCRIPTS) + 3}"
    )
    assert page.text_content("#pipelines-counts") == (
        f"{len(SCRIPTS) + 3} reports · {len(wrong)} other records ignored"
    )
    names = page.eval_on_selector_all("#pipelines-rows th", "all => all.map(one => one.textContent)")
    assert {f"{script} {script} → {script}" for script in SCRIPTS} <= set(names)
    assert "__proto__ ⟨U+202E⟩txt.exe" in names
    for number, name in enumerate(names):
        page.click(f"#pipelines-rows tr:nth-child({number + 1}) button")
        assert page.text_content("#pipelines-name") == name
        if name.split(" ")[0] in SCRIPTS:
            assert name.split(" ")[0] in page.text_content("#pipelines-problem")
    assert "taken" not in page.title()
    assert page.locator("#pipelines :is(script, img, iframe, style)").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    watched.keep_picture("pipelines-hostile")


@pytest.mark.node
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_can_be_used_in_both_themes_and_sizes_by_the_keyboard(
    browser: Any,
    server: Server,
    axe: str,
    theme: str,
    size: dict[str, int],
) -> None:
    place = f"/looks/{theme}/{size['width']}"
    begun = [
        report(
            "batch",
            10 * (40 - minute),
            rows=minute * 1200 + 37 * minute % 900,
            batches=minute,
            lagBytes=4_000_000 - 90_000 * minute,
            deadLetters=minute // 4,
            lateRows=minute // 9,
            expectations={"positive": minute // 2, "named": 0},
            startedAt="2026-11-18T09:00:00.000Z",
        )
        for minute in range(41)
    ]
    others = [
        report("alive", 5, pipeline="derive", source="orders/*", target="sums", rows=123_456, lagBytes=900),
        report("failed", 500, pipeline="replay", source="./exports", target="users", error="users is closed"),
        report("batch", 900, pipeline="dedup", source="clicks/*", target="clicks-once", duplicates=7),
        report("done", 900, pipeline="requeue", source="_dead-letters", target=None, rows=12),
    ]
    publish(server, *begun, *others, to=place)
    watched = Watched(browser, viewport=size, color_scheme=theme)
    page = open_pipelines(watched, server, place)
    page.wait_for_selector("#pipelines-rows tr")
    page.focus("#pipelines-form button")
    for _ in range(4):
        page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "archive orders/* → ./orders"
    assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Enter")
    assert page.text_content("#pipelines-name") == "archive orders/* → ./orders"
    assert page.evaluate("() => document.activeElement.textContent") == "archive orders/* → ./orders"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")
    watched.keep_picture(f"pipelines-{theme}-{'wide' if size is WIDE else 'phone'}")
    problems = violations(page, axe)
    watched.context.close()
    assert problems == []
    assert watched.complaints == []
