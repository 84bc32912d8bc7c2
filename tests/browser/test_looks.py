"""How the page looks and can be used: themes, a phone's width, the keyboard, axe-core's findings."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from browser.test_hostile import SCRIPTS
from browser.test_tokens import SECRET, token
from browser.watching import COLOUR_RULES, JSON, PHONE, TEXT, WIDE, Watched, append, http, violations
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


RIGHT_TO_LEFT = "\u202e"
NAMED = f"/<img src=x onerror=alert(1)>{RIGHT_TO_LEFT}txt.exe"
LONG_NAME = f"/long/{'unbroken' * 40}"


@pytest.fixture(scope="module")
def hostile(browser: Any) -> Iterator[Server]:
    """A server whose streams are made to break a page."""
    ansi = (
        f"\x1b[2J\x1b[31mred\x07\x00 {RIGHT_TO_LEFT}gnp.exe\u2066 zero\u200bwidth\n" + "unbroken" * 90 + "\n"
    )
    with millstream() as server:
        for name, kind, content in (
            ("/markup.json", JSON, json.dumps([{script: script} for script in SCRIPTS])),
            ("/ansi", TEXT, ansi),
            ("/huge", JSON, json.dumps([{"text": "x" * 100_000}, "after"])),
            (NAMED, {"Content-Type": f"text/{'t' * 70}"}, "line\n"),
            (LONG_NAME, JSON, json.dumps([{"token": script} for script in SCRIPTS * 10])),
        ):
            http.put(f"{server.url}{name}", content=content, headers=kind).raise_for_status()
        yield server


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


class Looked:
    """A page that is looked at, view by view, and what was wrong with its views."""

    def __init__(
        self, browser: Any, axe: str, theme: str, size: dict[str, int], rules: list[str] | None = None
    ) -> None:
        self.watched = Watched(browser, viewport=size, color_scheme=theme)
        self.page = self.watched.page
        self._axe = axe
        self._which = f"{theme}-{'wide' if size is WIDE else 'phone'}"
        self._rules = rules
        self._problems: list[str] = []

    def look_at(self, view: str) -> None:
        """Take a picture, let axe-core judge, and see that nothing is wider or higher than the window."""
        page = self.page
        self.watched.keep_picture(f"{view}-{self._which}")
        self._problems.extend(f"{view}: {problem}" for problem in violations(page, self._axe, self._rules))
        for side in ("Width", "Height"):
            assert page.evaluate(f"() => document.documentElement.scroll{side} <= inner{side}"), view
        self._problems.extend(f"{view}: cut off: {cut}" for cut in page.evaluate(CUT_OFF))

    def look_at_dialogs(self, *actions: str, of: str = "") -> None:
        for action in actions:
            self.page.click(f"#{action}-open")
            self.look_at(f"{action}{of}")
            self.page.keyboard.press("Escape")

    def follow(self, name: str) -> None:
        self.page.evaluate("name => { location.hash = '#/s' + encodeURI(name); }", name)
        self.page.wait_for_function(
            "name => document.getElementById('name').textContent === name"
            " && /Live|Ended/.test(document.getElementById('state').textContent)",
            arg=name.replace(RIGHT_TO_LEFT, "⟨U+202E⟩"),
        )
        self.page.wait_for_selector(".row")

    def judge(self) -> None:
        self.watched.context.close()
        assert self._problems == []
        assert self.watched.complaints == []


in_every_theme_and_size = pytest.mark.parametrize(
    ("theme", "size"),
    [(theme, size) for size in (WIDE, PHONE) for theme in ("light", "dark")],
    ids=["wide-light", "wide-dark", "phone-light", "phone-dark"],
)


@pytest.mark.node
@in_every_theme_and_size
def test_every_view(browser: Any, filled: Server, axe: str, theme: str, size: dict[str, int]) -> None:
    # A theme changes colours and nothing else: all other rules judge each size once, in the light one.
    looked = Looked(browser, axe, theme, size, COLOUR_RULES if theme == "dark" else None)
    watched, page, look_at = looked.watched, looked.page, looked.look_at
    watched.open(filled)
    page.wait_for_selector(".item")
    page.wait_for_selector("#server-facts [data-fact='Streams']")
    background = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if theme == "light" else "rgb(20, 24, 27)")
    look_at("overview")
    looked.look_at_dialogs("help", "create", "token")
    page.fill("#query", "web")
    page.wait_for_function("() => document.getElementById('count').textContent === '1 stream'")
    look_at("search")
    page.fill("#query", "")
    for name in ("/chat/1", "/logs/web", "/raw", "/chat/1-fork"):
        looked.follow(name)
        look_at(f"stream{name.replace('/', '-')}")
    looked.look_at_dialogs("copy", "fork", "close", "delete")
    look_at_changes(looked)
    page.select_option("#as", "joined")
    page.wait_for_function("() => document.getElementById('joined').textContent.includes('HelloHello')")
    look_at("joined")
    page.evaluate("() => { location.hash = '#/s/not/there'; }")
    page.wait_for_selector("#stream-problem:not([hidden])")
    look_at("missing")
    page.click("#lag-open")
    page.wait_for_selector("#lag-hint:not([hidden])")
    look_at("pipelines")
    page.click("#board-open")
    page.wait_for_function("() => document.querySelectorAll('.lines li').length > 8")
    look_at("board")
    looked.judge()


def look_at_changes(looked: Looked) -> None:
    """The dialogs that change and trim, with what is wrong, and with a preview."""
    page = looked.page
    page.click("#change-open")
    page.fill("#change [name=ttl]", "soon")
    page.click("#attribute-add")
    page.fill("#attributes input >> nth=0", "team")
    page.click("#change .primary")
    page.wait_for_selector("#change-ttl-wrong:not([hidden])")
    looked.look_at("change")
    page.keyboard.press("Escape")
    page.click("#trim-open")
    page.select_option("#trim [name=by]", "last")
    page.fill("#trim [name=last]", "10")
    page.wait_for_selector("#trim .danger:enabled")
    looked.look_at("trim")
    page.keyboard.press("Escape")


@pytest.mark.node
@pytest.mark.parametrize(
    ("theme", "size"), [("dark", WIDE), ("light", PHONE)], ids=["wide-dark", "phone-light"]
)
def test_every_view_of_hostile_content(
    browser: Any, hostile: Server, axe: str, theme: str, size: dict[str, int]
) -> None:
    looked = Looked(browser, axe, theme, size)
    page, look_at = looked.page, looked.look_at

    def box(selector: str) -> dict[str, float]:
        found: dict[str, float] = page.locator(selector).bounding_box()
        return found

    looked.watched.open(hostile)
    page.wait_for_selector(".item")
    look_at("hostile-list")
    page.click("#create-open")
    page.fill("#create [name=path]", LONG_NAME)
    page.fill("#create [name=type]", "text/plain")
    page.click("#create .primary")
    page.wait_for_selector("#create .problem:not([hidden])")
    look_at("create-refused")
    page.keyboard.press("Escape")
    for view, name in {"json": "/markup.json", "text": "/ansi", "huge": "/huge", "name": NAMED}.items():
        looked.follow(name)
        look_at(f"hostile-{view}")
    looked.look_at_dialogs("copy", "fork", "change", "trim", "close", "delete", of="-hostile")
    looked.follow(LONG_NAME)
    look_at("long-name")
    if size is PHONE:
        arrow, name = box("#stream .back"), box("#name")
        assert (name["x"] > arrow["x"], name["y"] < arrow["y"] + arrow["height"]) == (True, True)
    looked.look_at_dialogs("fork", "delete", of="-long-name")
    page.fill("#message", "{no json")
    page.click("#composer .primary")
    page.wait_for_selector("#append-problem:not([hidden])")
    look_at("append-refused")
    page.click("#follow")
    page.wait_for_selector("#newer:not([hidden])")
    assert box("#newer")["y"] + box("#newer")["height"] < box("#log")["y"] + box("#log")["height"]
    page.click("#pause")
    look_at("paused")
    page.select_option("#as", "joined")
    page.wait_for_function("() => document.getElementById('joined').textContent.includes('<script>')")
    page.wait_for_selector("#newer:not([hidden])")
    look_at("hostile-joined")
    looked.judge()


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
        "change-open",
        "trim-open",
        "close-open",
        "delete-open",
        "from",
        "as",
        "filter",
        "times",
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
