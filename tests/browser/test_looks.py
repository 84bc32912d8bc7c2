"""How the page looks and can be used: themes, a phone's width, the keyboard, axe-core's findings."""

import json
from typing import Any

import pytest

from browser.watching import JSON, PHONE, TEXT, WIDE, Watched, append, http, violations
from running import Server


@pytest.fixture(scope="module")
def filled(server: Server) -> Server:
    """A server with something to look at."""
    for number in range(30):
        http.put(f"{server.url}/chat/{number}", headers=JSON)
    for number in range(50):
        message = {
            "id": number,
            "token": "Hello",
            "usage": {"in": 12, "out": 3 * number},
            "ok": True,
            "error": None,
        }
        append(server, "/chat/1", json.dumps(message), JSON)
    longer = {"id": 50, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Streams " * 12}}]}
    append(server, "/chat/1", json.dumps(longer), JSON)
    http.put(f"{server.url}/logs/web", headers=TEXT)
    lines = [f"2026-11-15T10:00:{n:02} GET /chat/{n} 200 in {n * 7 % 31} ms" for n in range(40)]
    append(server, "/logs/web", "\n".join(lines) + "\n", TEXT)
    http.post(f"{server.url}/logs/web", headers={"Stream-Closed": "true"})
    http.put(f"{server.url}/raw", content=bytes(range(256)) * 3)
    return server


@pytest.mark.node
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_both_themes_and_sizes(
    browser: Any, filled: Server, axe: str, theme: str, size: dict[str, int]
) -> None:
    watched = Watched(browser, viewport=size, color_scheme=theme)
    page = watched.open(filled)
    page.wait_for_selector(".item")
    page.wait_for_function("() => (document.querySelector('.chart .value')?.textContent ?? '–') !== '–'")
    which = f"{theme}-{'wide' if size is WIDE else 'phone'}"
    background = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if theme == "light" else "rgb(20, 24, 27)")
    watched.keep_picture(f"overview-{which}")
    is_judged = (theme == "light") == (size is WIDE)  # each theme once, each size once
    problems = violations(page, axe) if is_judged else []
    for name in ("/chat/1", "/logs/web", "/raw"):
        page.evaluate("name => { location.hash = '#/s' + name; }", name)
        page.wait_for_function("() => /Live|Ended/.test(document.getElementById('state').textContent)")
        page.wait_for_selector(".row")
        watched.keep_picture(f"stream{name.replace('/', '-')}-{which}")
        if is_judged:
            problems += violations(page, axe)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")
    page.click("#fork-open")
    watched.keep_picture(f"dialog-{which}")
    if is_judged:
        problems += violations(page, axe)
    watched.context.close()
    assert problems == []
    assert watched.complaints == []


def test_the_theme_is_chosen_and_kept(filled: Server, watched: Watched) -> None:
    page = watched.open(filled)

    def background() -> str:
        colour: str = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
        return colour

    assert background() == "rgb(255, 255, 255)"
    page.click("#theme")
    page.click("#theme")
    assert (page.text_content("#theme"), background()) == ("Theme: dark", "rgb(20, 24, 27)")
    page.reload()
    page.wait_for_function("() => document.getElementById('theme').textContent === 'Theme: dark'")
    assert background() == "rgb(20, 24, 27)"


def test_everything_is_reached_by_the_keyboard(filled: Server, watched: Watched) -> None:
    page = watched.open(filled)
    page.wait_for_selector(".item")

    def focused() -> str:
        where: str = page.evaluate("() => document.activeElement.id || document.activeElement.className")
        return where

    def tab_to(wanted: str, key: str = "Tab") -> None:
        seen = []
        for _ in range(20):
            if focused() == wanted:
                return
            page.keyboard.press(key)
            seen.append(focused())
            outlined = page.evaluate(
                "() => { const s = getComputedStyle(document.activeElement);"
                " return s.outlineStyle !== 'none' || document.activeElement.id === 'view'; }"
            )
            assert outlined, focused()
        raise AssertionError(f"{wanted} was not reached: {seen}")

    page.keyboard.press("/")
    assert focused() == "query"
    page.keyboard.type("/chat/")
    page.wait_for_function("() => document.getElementById('count').textContent === '30 streams'")
    tab_to("list")
    assert page.get_attribute(".item.active", "aria-posinset") == "1"
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".item.active :text-is('/chat/1')")
    assert page.get_attribute(".item.active", "id") == page.get_attribute("#list", "aria-activedescendant")
    page.keyboard.press("Enter")
    watched.wait_for_state("Live")
    assert focused() == "view"
    for wanted in (
        "fork-open",
        "close-open",
        "delete-open",
        "from",
        "as",
        "filter",
        "follow",
        "pause",
        "log",
    ):
        tab_to(wanted)
    tab_to("message")
    page.keyboard.type('{"typed": true}')
    page.keyboard.press("Control+Enter")
    page.wait_for_function(
        "() => document.querySelector('#log .row:last-child')?.textContent.includes('typed')"
    )
    tab_to("pause", "Shift+Tab")
    page.keyboard.press("Enter")
    watched.wait_for_state("Paused")
    tab_to("delete-open", "Shift+Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.querySelector('#delete').open")
    page.keyboard.press("Escape")
    assert focused() == "delete-open"
    tab_to("create-open", "Shift+Tab")
    page.keyboard.press("Enter")
    page.keyboard.type("by/keyboard")  # after what was searched for
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.getElementById('name').textContent === '/chat/by/keyboard'")
