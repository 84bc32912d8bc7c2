"""How the page looks and can be used: themes, a phone's width, the keyboard, axe-core's findings."""

import json
from typing import Any

import pytest

from browser.test_tokens import SECRET, token
from browser.watching import JSON, PHONE, TEXT, WIDE, Watched, append, http, violations
from running import Server, millstream


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
    http.put(f"{server.url}/chat/1-fork", headers={"Stream-Forked-From": "/chat/1"})
    http.put(f"{server.url}/a/rather/long/path/of/a/stream/that/does/not/fit/into/the/list", headers=JSON)
    return server


# Controls and words that their boxes do not show whole; rows of lists and logs may be longer than they show.
CUT_OFF = """() => {
    const visible = (element) => element.checkVisibility() && element.getClientRects().length;
    const top = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document.body;
    return [...top.querySelectorAll('button, label, dt, dd, h1, h2, .value, .hint, .problem, td, th')]
        .filter((element) => visible(element) && !element.closest('.row, .item, .unseen, .skip, pre'))
        .filter((element) => {
            const box = element.getBoundingClientRect();
            const isOutside = box.left < -1 || box.right > innerWidth + 1;
            return isOutside || element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 1
                && getComputedStyle(element).display !== 'inline';
        })
        .map((element) => `${element.tagName} ${element.id} ${element.textContent.slice(0, 40)}`);
}"""


@pytest.mark.node
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_every_view_in_both_themes_and_sizes(
    browser: Any, filled: Server, axe: str, theme: str, size: dict[str, int]
) -> None:
    watched = Watched(browser, viewport=size, color_scheme=theme)
    which = f"{theme}-{'wide' if size is WIDE else 'phone'}"
    problems: list[str] = []
    page = watched.page

    def look_at(view: str) -> None:
        """Take a picture, let axe-core judge, and see that nothing is wider or higher than the window."""
        watched.keep_picture(f"{view}-{which}")
        problems.extend(f"{view}: {problem}" for problem in violations(page, axe))
        for side in ("Width", "Height"):
            assert page.evaluate(f"() => document.documentElement.scroll{side} <= inner{side}"), view
        problems.extend(f"{view}: cut off: {cut}" for cut in page.evaluate(CUT_OFF))

    def follow(name: str) -> None:
        page.evaluate("name => { location.hash = '#/s' + name; }", name)
        page.wait_for_function(
            "name => document.getElementById('name').textContent === name"
            " && /Live|Ended/.test(document.getElementById('state').textContent)",
            arg=name,
        )
        page.wait_for_selector(".row")

    watched.open(filled)
    page.wait_for_selector(".item")
    page.wait_for_selector("#server-facts [data-fact='Streams']")
    background = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if theme == "light" else "rgb(20, 24, 27)")
    look_at("overview")
    page.click("#help-open")
    look_at("help")
    page.keyboard.press("Escape")
    page.click("#create-open")
    look_at("create")
    page.keyboard.press("Escape")
    page.click("#token-open")
    look_at("token")
    page.keyboard.press("Escape")
    page.fill("#query", "web")
    page.wait_for_function("() => document.getElementById('count').textContent === '1 stream'")
    look_at("search")
    page.fill("#query", "")
    for name in ("/chat/1", "/logs/web", "/raw", "/chat/1-fork"):
        follow(name)
        look_at(f"stream{name.replace('/', '-')}")
    for action in ("copy", "fork", "close", "delete"):
        page.click(f"#{action}-open")
        look_at(action)
        page.keyboard.press("Escape")
    page.select_option("#as", "joined")
    page.wait_for_function("() => document.getElementById('joined').textContent.includes('HelloHello')")
    look_at("joined")
    page.evaluate("() => { location.hash = '#/s/not/there'; }")
    page.wait_for_selector("#stream-problem:not([hidden])")
    look_at("missing")
    page.click("#lag-open")
    page.wait_for_selector("#lag-hint:not([hidden])")
    look_at("pipelines")
    watched.context.close()
    assert problems == []
    assert watched.complaints == []


@pytest.mark.node
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_what_a_token_does_not_allow_is_told_legibly(browser: Any, axe: str, size: dict[str, int]) -> None:
    with millstream("--auth-secret", SECRET) as server:
        admin = {**JSON, "Authorization": f"Bearer {token('admin')}"}
        http.put(f"{server.url}/read/only", content='[{"n":1}]', headers=admin).raise_for_status()
        watched = Watched(browser, viewport=size, color_scheme="dark" if size is WIDE else "light")
        which = "wide" if size is WIDE else "phone"
        page = watched.open(server)
        page.wait_for_selector("#list-problem:not([hidden])")
        page.wait_for_selector("#metrics-problem:not([hidden])")
        watched.keep_picture(f"no-token-{which}")
        problems = violations(page, axe)
        page.click("#list-problem button")
        page.fill("#token [name=token]", token("read:/read/*"))
        page.click("#token .primary")
        page.click(".item")
        page.wait_for_selector("#read-only:not([hidden])")
        page.wait_for_selector(".row")
        watched.keep_picture(f"read-only-{which}")
        problems += violations(page, axe)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
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
    page.wait_for_function("() => document.getElementById('count').textContent === '31 streams'")
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
