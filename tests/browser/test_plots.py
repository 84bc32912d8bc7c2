"""The plots on the overview: what the server counts, drawn."""

import time
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
        deadline_s = time.monotonic() + 20
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
