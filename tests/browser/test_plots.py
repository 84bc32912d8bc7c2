"""The plots on the overview: what the server counts, drawn."""

import time
from importlib.metadata import version
from typing import Any

from browser.watching import TEXT, Watched, append, http
from running import Server, durable_millstream

VALUE = (
    "() => [...document.querySelectorAll('.chart')]"
    ".find(c => c.textContent.includes(%r))?.querySelector('%s')"
)


def test_the_time_of_syncs_is_plotted_while_appends_are_made(browser: Any, watched: Watched) -> None:
    with durable_millstream() as server:
        http.put(f"{server.url}/s", headers=TEXT).raise_for_status()
        page = watched.open(server)
        drawn = VALUE % ("Sync to disk", ".line")
        deadline_s = time.monotonic() + 60
        # A line needs two samples next to each other, so appends have to go on for some seconds.
        while "L" not in (page.evaluate(f"() => ({drawn})()?.getAttribute('d')") or ""):
            assert time.monotonic() < deadline_s, "no line was drawn"
            append(server, "/s", "x" * 100, TEXT)
            time.sleep(0.05)
        page.wait_for_function(f"() => / ms$| s$/.test(({VALUE % ('Sync to disk', '.value')})().textContent)")
        shown = page.evaluate(f"() => ({VALUE % ('Sync to disk', '.value')})().textContent")
        assert float(shown.split()[0].replace(",", "")) > 0
        watched.keep_picture("overview-syncs")


def test_a_store_without_a_disk_has_no_plot_of_one(server: Server, watched: Watched) -> None:
    page = watched.open(server)
    page.wait_for_function("() => (document.querySelector('.chart .value')?.textContent ?? '–') !== '–'")
    titles = page.eval_on_selector_all(
        ".chart", "all => all.filter(c => c.checkVisibility()).map(c => c.textContent)"
    )
    assert any("Appends per second" in title for title in titles)
    assert not any("Sync" in title for title in titles)


def test_plots_have_a_past_when_the_page_opens(watched: Watched) -> None:
    """The server keeps samples, so nobody has to watch for a line to be drawn."""
    with durable_millstream() as server:
        http.put(f"{server.url}/s", headers=TEXT).raise_for_status()
        deadline_s = time.monotonic() + 60
        while len(http.get(f"{server.url}/__ds/history").json()["samples"]) < 4:  # three are kept
            append(server, "/s", "x" * 100, TEXT)
            assert time.monotonic() < deadline_s, "no samples were kept"
            time.sleep(0.1)
        page = watched.open(server)
        lines = f"() => ({VALUE % ('Appends per second', '.line')})().getAttribute('d')"
        page.wait_for_function(f"() => (({lines})().match(/L/g) ?? []).length >= 1")
        assert page.text_content(".chart .axis span") == "15 min ago"


def test_the_overview_asks_for_nothing_while_it_is_not_shown(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/shown", headers=TEXT).raise_for_status()
    page = watched.open(server, "/shown")
    watched.wait_for_state("Live")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_request("**/__ds/streams*"):  # the list goes on
        pass
    assert not [url for url in asked if "/__ds/history" in url or "/__ds/server" in url]
    with page.expect_request("**/__ds/history*"):
        page.click(".brand")


def test_the_overview_tells_what_the_server_is(watched: Watched) -> None:
    with durable_millstream() as server:
        http.put(f"{server.url}/s", headers=TEXT).raise_for_status()
        append(server, "/s", "x" * 2048, TEXT)
        page = watched.open(server)

        def wait_for(fact: str, pattern: str) -> None:
            page.wait_for_function(
                "([fact, pattern]) => new RegExp(pattern).test("
                "document.querySelector(`#server-facts [data-fact='${fact}']`)?.textContent ?? '')",
                arg=[fact, pattern],
            )

        wait_for("Version", rf"^{version('millstream')}$")
        wait_for("Up for", r"^\d+ s$")
        wait_for("Streams", "^1$")
        wait_for("Store", "^log, fsync$")
        wait_for("Appends", r"^1 \(2 KiB\)$")
        wait_for("Disk free", r"[KMGT]iB$")
