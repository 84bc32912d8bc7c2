"""The lag of pipelines: what `profile` reports, in a table and in plots, as it comes."""

import importlib.resources
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from browser.test_hostile import SCRIPTS
from browser.watching import JSON, PHONE, TEXT, WIDE, Watched, append, http, violations
from running import Server, millstream

BEGUN = datetime(2026, 11, 15, 10, tzinfo=UTC)


def report(stream: str, minute: int = 0, **changes: Any) -> dict[str, Any]:
    """One record, as `profile` writes it: the window from a minute to the next."""
    since, until = (BEGUN + timedelta(minutes=minute + n) for n in (0, 1))
    return {
        "stream": stream,
        "since": since.isoformat(timespec="milliseconds").replace("+00:00", "Z") if minute else None,
        "until": until.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "rows": 120,
        "bytes": 4096,
        "lagBytes": 0,
        "offset": "0000000000000000_0000000000004096",
        "closed": False,
        "expectations": {},
        "fields": {"id": ["integer"]},
        "drift": None,
    } | changes


def drifted(added: Sequence[Any] = (), removed: Sequence[Any] = (), changed: Sequence[Any] = ()) -> Any:
    return {"added": list(added), "removed": list(removed), "changed": list(changed)}


def publish(server: Server, *reports: Any, to: str = "/_profile") -> None:
    http.put(f"{server.url}{to}", headers=JSON).raise_for_status()
    append(server, to, json.dumps(reports), JSON)


def open_lag(watched: Watched, server: Server, below: str = "") -> Any:
    watched.page.goto(f"{server.url}/__ds/ui#/lag{below}")
    return watched.page


def wait_for_lag_state(watched: Watched, words: str) -> None:
    watched.page.wait_for_function(
        "want => document.getElementById('lag-state').textContent === want", arg=words
    )


def table(watched: Watched) -> list[list[str]]:
    """The rows of the table, without the time, which is in words of the browser's place."""
    rows: list[list[str]] = watched.page.eval_on_selector_all(
        "#lag-rows tr", "rows => rows.map(row => [...row.cells].slice(0, 6).map(cell => cell.textContent))"
    )
    return rows


def wait_for_first_row(watched: Watched, expected: list[str]) -> None:
    watched.page.wait_for_function(
        "want => { const row = document.querySelector('#lag-rows tr');"
        " return row && JSON.stringify([...row.cells].slice(0, 6).map(c => c.textContent)) === want; }",
        arg=json.dumps(expected, separators=(",", ":"), ensure_ascii=False),
    )


def test_the_records_of_these_tests_are_those_of_the_pipeline() -> None:
    try:
        pipeline = importlib.import_module("millstream.spark.pipelines.profile")
    except ImportError as missing:
        pytest.skip(f"the pipeline cannot be loaded here: {missing.name}")
    shown = [report("a", 1), report("a", drift=drifted(["b"], ["c"], ["d"]), lagBytes=None)]
    for one in shown:
        written = msgspec.json.encode(msgspec.json.decode(json.dumps(one), type=pipeline.Report, strict=True))
        assert json.loads(written) == one
    web = importlib.resources.files("millstream.server") / "web" / "address.js"
    assert f'USUAL_REPORTS = "/{pipeline.STREAM_NAME}"' in web.read_text()


def test_reports_are_shown_as_another_client_appends_them(browser: Any, watched: Watched) -> None:
    with millstream() as server:
        page = watched.open(server)
        page.click("#lag-open")
        wait_for_lag_state(watched, "There is no stream at /_profile.")
        assert "There is no stream /_profile yet." in page.text_content("#lag-hint")
        publish(server, report("chat/1"), report("jobs", lagBytes=2048, rows=1000))
        wait_for_lag_state(watched, "Live")
        wait_for_first_row(watched, ["/jobs", "2 KiB", "1,000", "–", "4 KiB", "same"])
        assert table(watched)[1] == ["/chat/1", "0 B", "120", "–", "4 KiB", "same"]
        assert page.text_content("#lag-name") == "/jobs"
        publish(
            server,
            report("chat/1", 1, lagBytes=5 * 2**20, drift=drifted(["note", "user.id"], changed=["id"])),
            report("jobs", 1, closed=True, lagBytes=None),
        )
        wait_for_first_row(watched, ["/chat/1", "5 MiB", "120", "2", "4 KiB", "2 added, 1 changed type"])
        assert table(watched)[1] == ["/jobs closed", "unknown", "120", "2", "4 KiB", "same"]
        assert page.text_content("#lag-name") == "/jobs", "what is plotted is not changed under one's eyes"
        assert page.text_content("#drift") == "No changes reported."
        page.click("#lag-rows button:text-is('/chat/1')")
        assert page.text_content("#lag-name") == "/chat/1"
        assert page.text_content("#drift").endswith("added: note, user.id; changed type: id")
        publish(server, report("chat/1", 2, lagBytes=2**20))
        page.wait_for_function("() => document.querySelector('#lag-charts .value').textContent === '1 MiB'")
        lines = page.eval_on_selector_all(
            "#lag-charts .line", "all => all.map(line => line.getAttribute('d'))"
        )
        assert lines[0].count("L") == 2, "three reports, two pieces of a line"
        heights = [float(point.split()[1]) for point in lines[0].strip("M").split("L")]
        assert heights[0] > heights[2] > heights[1], "zero is below, five are above one"
        assert lines[1].startswith("M0.0 ")
        labels = page.eval_on_selector_all("#lag-charts svg", "all => all.map(s => s.ariaLabel)")
        assert labels[1].startswith("Rows in each report: 120 at ")
        assert table(watched)[0][5].startswith("changed "), "that it has changed is not forgotten"
        assert page.text_content("#lag-counts") == "5 reports"
        page.click("#lag-name")
        page.wait_for_function("() => document.getElementById('name').textContent === '/chat/1'")


def test_another_stream_may_hold_the_reports(server: Server, watched: Watched) -> None:
    publish(server, report("orders", rows=7), to="/ops/räports")
    http.put(f"{server.url}/prose", headers=TEXT)
    http.put(f"{server.url}/numbers", headers=JSON)
    append(server, "/numbers", '[1, null, [], {}, {"stream": "x"}]', JSON)
    page = open_lag(watched, server)
    page.fill("#lag-stream", "ops/räports")
    page.press("#lag-stream", "Enter")
    wait_for_first_row(watched, ["/orders", "0 B", "7", "–", "4 KiB", "same"])
    page.reload()
    wait_for_first_row(watched, ["/orders", "0 B", "7", "–", "4 KiB", "same"])
    assert page.input_value("#lag-stream") == "/ops/räports"
    page.fill("#lag-stream", "/prose")
    page.click("#lag-form button")
    wait_for_lag_state(watched, "This stream is not JSON, so it has no reports.")
    assert page.is_hidden("#lag-table")
    page.fill("#lag-stream", "/numbers")
    page.click("#lag-form button")
    wait_for_lag_state(watched, "Live")
    page.wait_for_function(
        "() => document.getElementById('lag-counts').textContent === '0 reports · 5 other records ignored'"
    )
    assert page.text_content("#lag-hint") == "/numbers has no reports."


def test_hostile_reports_stay_text(server: Server, watched: Watched) -> None:
    odd = {"toString": "x", "__proto__": {"rows": 1}}
    wrong = [report("x") | {key: value} for key in ("rows", "bytes", "until") for value in ("1e3", -1, odd)]
    publish(
        server,
        *(report(script, drift=drifted([script], ["\u202etxt.exe"], [""])) for script in SCRIPTS),
        *wrong,
        report("__proto__", fields=None, drift="no", lagBytes="many", closed="yes"),
        report("constructor", drift=drifted([1, None, ["x"]])),
        report("huge", rows=10**300),
        report("long" * 2000, lagBytes=2**53 - 1),
        to="/hostile",
    )
    page = open_lag(watched, server, "/hostile")
    wait_for_lag_state(watched, "Live")
    page.wait_for_function("() => document.querySelectorAll('#lag-rows tr').length === 10")
    assert page.text_content("#lag-counts") == "10 reports · 10 other records ignored"
    names = [row[0] for row in table(watched)]
    assert {f"/{script}" for script in SCRIPTS} <= set(names)
    [plain] = [row for row in table(watched) if row[0] == "/__proto__"]
    assert plain == ["/__proto__", "unknown", "120", "–", "4 KiB", "same"]
    for number in range(10):
        page.click(f"#lag-rows tr:nth-child({number + 1}) button")
        assert page.text_content("#lag-name") == names[number]
        if names[number].lstrip("/") in SCRIPTS:
            said = page.text_content("#drift")
            assert f"added: {names[number].lstrip('/')}; removed: ⟨U+202E⟩txt.exe" in said
            assert said.endswith("changed type: (the message itself)")
    assert "taken" not in page.title()
    assert page.locator("#lag :is(script, img, iframe, style)").count() == 0
    assert page.locator("#lag a[href^=javascript]").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    watched.keep_picture("lag-hostile")


def test_only_the_worst_of_many_streams_are_shown(server: Server, watched: Watched) -> None:
    reports = [report(f"s/{number}", minute, lagBytes=number) for minute in (0, 1) for number in range(300)]
    publish(server, *reports, to="/many")
    page = open_lag(watched, server, "/many")
    wait_for_first_row(watched, ["/s/299", "299 B", "120", "2", "4 KiB", "same"])
    assert len(table(watched)) == 100
    assert page.text_content("#lag-caption") == (
        "Latest report of each stream: the 100 with the largest lag, of 300"
    )


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
    shapes = {10: drifted(["usage.tokens"], ["note"]), 20: drifted(changed=["id"])}
    publish(
        server,
        *(
            report(
                name,
                minute,
                rows=100 + 37 * minute % 90,
                lagBytes=lag * (30 - minute),
                drift=shapes.get(minute),
            )
            for minute in range(30)
            for name, lag in (
                ("chat/1", 900_000),
                ("jobs/import", 1200),
                ("a/quite/long/name/of/a/stream", 0),
            )
        ),
        to=f"/looks/{theme}/{size['width']}",
    )
    watched = Watched(browser, viewport=size, color_scheme=theme)
    page = open_lag(watched, server, f"/looks/{theme}/{size['width']}")
    wait_for_lag_state(watched, "Live")
    page.wait_for_selector("#lag-rows tr")
    page.focus("#lag-form button")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "/jobs/import"
    assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Enter")
    assert page.text_content("#lag-name") == "/jobs/import"
    assert page.evaluate("() => document.activeElement.textContent") == "/jobs/import", "the focus stays"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")
    watched.keep_picture(f"lag-{theme}-{'wide' if size is WIDE else 'phone'}")
    problems = violations(page, axe)
    watched.context.close()
    assert problems == []
    assert watched.complaints == []
