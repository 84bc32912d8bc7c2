"""The list of streams: a tree of paths, sorted, with live sizes, and reached by the keyboard."""

from typing import Any

from browser.watching import JSON, PHONE, TEXT, Watched, append, create_many, http
from running import Server, millstream

LABELS = ".item .path"


def put(server: Server, name: str, size: int = 0) -> None:
    http.put(server.url + name, content=b"x" * size, headers=TEXT).raise_for_status()


def test_a_tree_opens_and_closes_and_keeps_what_was_chosen(watched: Watched) -> None:
    """A folder that holds one thing only is no level of its own."""
    with millstream() as server:
        for name in (
            "/chat",
            "/chat/1",
            "/chat/2",
            "/jobs/17/log",
            "/jobs/18/log",
            "/jobs/18/out",
            "/lone/deep/er",
        ):
            put(server, name)
        page = watched.open(server)
        jobs = ["/jobs/", "17/log", "18/", "log", "out"]
        watched.wait_for_texts(LABELS, ["/chat", "/chat/", "1", "2", *jobs, "/lone/deep/er"])
        assert page.get_attribute("#list", "role") == "tree"
        page.click(".item:has-text('/chat/')")
        watched.wait_for_texts(LABELS, ["/chat", "/chat/", *jobs, "/lone/deep/er"])
        assert page.get_attribute(".item:has-text('/chat/')", "aria-expanded") == "false"
        assert page.text_content(".item:has-text('/chat/') .details") == "2 streams · 0 B"
        page.click(".item:has-text('17/log')")
        page.wait_for_function("() => document.getElementById('name').textContent === '/jobs/17/log'")
        put(server, "/later")
        page.wait_for_selector(
            ".item:has-text('/later')"
        )  # the list is refreshed, and the folder stays closed
        watched.wait_for_texts(LABELS, ["/chat", "/chat/", *jobs, "/later", "/lone/deep/er"])
        page.click("#tree")
        page.wait_for_selector(".item:has-text('/chat/1')")
        assert page.get_attribute("#list", "role") == "listbox"
        page.reload()
        page.wait_for_selector(".item:has-text('/chat/1')")  # a list was chosen
        page.click("#tree")
        page.wait_for_selector(".item:has-text('/jobs/')")
        page.fill("#query", "log")  # what a search finds is a list
        watched.wait_for_texts(LABELS, ["/jobs/17/log", "/jobs/18/log"])
        assert page.is_disabled("#tree")


def test_the_list_is_sorted_by_name_size_and_last_write(watched: Watched) -> None:
    with millstream() as server:
        for name, size in (("/a", 10), ("/b/large", 5000), ("/b/small", 1), ("/c", 300)):
            put(server, name, size)
        append(server, "/a", "x", TEXT)
        page = watched.open(server)
        watched.wait_for_texts(LABELS, ["/a", "/b/", "large", "small", "/c"])
        page.select_option("#order", "size")
        watched.wait_for_texts(LABELS, ["/b/", "large", "small", "/c", "/a"])
        page.click("#tree")
        watched.wait_for_texts(LABELS, ["/b/large", "/c", "/a", "/b/small"])
        page.select_option("#order", "written")
        append(server, "/b/small", "x", TEXT)
        watched.wait_for_texts(".item:first-child .path", ["/b/small"])
        page.reload()
        watched.wait_for_texts(".item:first-child .path", ["/b/small"])  # the order is kept


def test_sizes_are_live(watched: Watched) -> None:
    with millstream() as server:
        put(server, "/grows/1")
        put(server, "/grows/2")
        page = watched.open(server)
        watched.wait_for_texts(".item .details", ["2 streams · 0 B", "0 B · text/plain", "0 B · text/plain"])
        append(server, "/grows/2", "x" * 2048, TEXT)
        watched.wait_for_texts(
            ".item .details", ["2 streams · 2 KiB", "0 B · text/plain", "2 KiB · text/plain"]
        )
        assert page.text_content(".item .when") == "now"


def test_sizes_are_live_in_a_long_list_where_somebody_looks(watched: Watched) -> None:
    with millstream() as server:
        create_many(server, [f"/many/{number:04}" for number in range(3500)])
        page = watched.open(server)
        page.wait_for_function("() => document.getElementById('count').textContent === '3,500 streams'")
        page.wait_for_selector(".item:has-text('0000')")
        page.focus("#list")
        page.keyboard.press("End")
        page.wait_for_selector(".item:has-text('3499')")
        asked: list[str] = []
        page.on("request", lambda request: "/__ds/streams" in request.url and asked.append(request.url))
        append(server, "/many/3499", "x" * 1024, TEXT)
        page.wait_for_selector(".item:has-text('3499') .details:text('1 KiB')")
        # Each request is for the thousand that hold what is seen, never for all.
        watched.wait_until(lambda: bool(asked))
        assert all("limit=1000" in url and "cursor=%2Fmany%2F2999" in url for url in asked)
        page.keyboard.press("Home")
        page.wait_for_selector(".item:has-text('/many/') .details:text('3,500 streams · 1 KiB')")


def test_a_fork_shows_what_it_inherited(watched: Watched) -> None:
    with millstream() as server:
        put(server, "/source", 2048)
        http.put(f"{server.url}/fork", headers={"Stream-Forked-From": "/source"}).raise_for_status()
        watched.open(server)
        watched.wait_for_texts(
            ".item .details", ["0 B + 2 KiB inherited · fork · text/plain", "2 KiB · text/plain"]
        )


def test_the_keyboard_goes_from_the_search_into_the_list_and_back(server: Server, watched: Watched) -> None:
    for name in ("/keys/a/1", "/keys/a/2", "/keys/b"):
        http.put(server.url + name, headers=JSON)
    page = watched.open(server)
    page.wait_for_selector(".item")

    def focused() -> str:
        where: str = page.evaluate("() => document.activeElement.id")
        return where

    def active(label: str) -> None:
        page.wait_for_selector(f".item.active .path:text-is('{label}')")

    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.id === 'query'")
    page.keyboard.press("ArrowDown")
    assert focused() == "list"
    active("/keys/")
    page.keyboard.press("ArrowRight")
    active("a/")
    page.keyboard.press("ArrowLeft")  # closes it
    page.wait_for_selector(".item.active[aria-expanded=false]")
    page.keyboard.press("ArrowDown")
    active("b")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")  # opens it
    page.keyboard.press("ArrowRight")
    active("1")
    page.keyboard.press("ArrowLeft")
    active("a/")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    assert focused() == "query"

    page.keyboard.type("/keys/a")
    page.keyboard.press("Enter")  # before the results are there
    page.wait_for_function("() => document.getElementById('name').textContent === '/keys/a/1'")
    watched.wait_for_state("Live")
    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.id === 'query'")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.getElementById('name').textContent === '/keys/a/2'")


def test_the_keys_are_shown_by_a_key_and_by_a_button(server: Server, watched: Watched) -> None:
    page = watched.open(server)
    page.keyboard.press("?")
    assert page.evaluate("() => document.getElementById('help').open")
    page.keyboard.press("Escape")
    assert not page.evaluate("() => document.getElementById('help').open")
    page.click("#help-open")
    page.click("#help button")
    assert page.evaluate("() => document.activeElement.id") == "help-open"
    page.focus("#query")
    page.keyboard.type("/?")
    assert page.input_value("#query") == "/?"  # in a field they are characters


def test_in_a_narrow_window_the_slash_goes_back_to_the_search(browser: Any, server: Server) -> None:
    http.put(f"{server.url}/narrow", headers=JSON)
    watched = Watched(browser, viewport=PHONE)
    page = watched.open(server, "/narrow")
    watched.wait_for_state("Live")
    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.id === 'query'")
    assert page.is_visible("#query")
    watched.context.close()
    assert watched.complaints == []
