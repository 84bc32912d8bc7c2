"""Many streams at a time: the board shows them side by side, and the list follows its visible rows.

Each takes one connection. Rule X9.
"""

from typing import Any
from urllib.parse import parse_qs

from browser.test_hostile import SCRIPTS
from browser.test_tokens import SECRET, token
from browser.watching import JSON, PHONE, TEXT, Watched, append, create_many, http
from running import Server, millstream


def put(server: Server, name: str, content: str = "", **headers: str) -> None:
    http.put(server.url + name, content=content, headers={**TEXT, **headers}).raise_for_status()


def board(watched: Watched, server: Server, query: str) -> Any:
    watched.page.goto(f"{server.url}/__ds/ui#/board/{query.replace('/', '%2F')}")
    watched.page.wait_for_function("() => document.getElementById('board-state').textContent === 'Live'")
    return watched.page


def lines(name: str) -> str:
    return f".tile[data-path='{name}'] .lines li"


def asked_for(page: Any) -> list[Any]:
    """Note every request from now on."""
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request))
    return asked


def followed(requests: list[Any]) -> list[list[str]]:
    """Give the streams that each request for events names."""
    return [
        sorted(one.rpartition("@")[0] for one in parse_qs(request.post_data or "").get("stream", []))
        for request in requests
        if "/__ds/events" in request.url
    ]


def test_a_board_of_forty_streams_takes_one_connection(browser: Any, server: Server) -> None:
    names = [f"/wall/{number:02}" for number in range(40)]
    for name in names:
        put(server, name, "an older line\n")
    watched = Watched(browser, viewport=PHONE)  # where the list is not shown beside it
    asked = asked_for(watched.page)
    page = board(watched, server, "/wall/")
    page.wait_for_function("() => document.querySelectorAll('.lines li').length === 40")
    assert page.text_content("#board-counts") == "40 streams on one connection"
    for name in names:
        append(server, name, f"to {name}\n", TEXT)
    for name in names:
        watched.wait_for_texts(lines(name), ["an older line", f"to {name}"])
    assert followed(asked) == [names]
    assert not [request.url for request in asked if "/wall/" in request.url.partition("#")[0]]
    watched.context.close()
    assert watched.complaints == []


def test_streams_join_end_go_and_are_made_anew(server: Server, watched: Watched) -> None:
    put(server, "/joins/a", "one\n")
    http.put(f"{server.url}/joins/b", content='[{"n":1},{"n":2}]', headers=JSON).raise_for_status()
    page = board(watched, server, "/joins/")
    watched.wait_for_texts(lines("/joins/b"), ['{"n":1}', '{"n":2}'])
    put(server, "/joins/aa", "created with content\n")
    watched.wait_for_texts(lines("/joins/aa"), ["created with content"])
    watched.wait_for_texts(".tile h2", ["/joins/a", "/joins/aa", "/joins/b"])
    http.post(f"{server.url}/joins/b", headers={"Stream-Closed": "true"}).raise_for_status()
    page.wait_for_selector(".tile[data-path='/joins/b'] .badge:text-is('Closed')")
    http.delete(f"{server.url}/joins/a").raise_for_status()
    page.wait_for_selector(".tile[data-path='/joins/a'] .badge:text-is('Deleted')")
    watched.wait_for_texts(lines("/joins/a"), ["one"])
    put(server, "/joins/a", "another\n")
    watched.wait_for_texts(lines("/joins/a"), ["another"])
    note = page.text_content(".tile[data-path='/joins/a'] .tile-note")
    assert note == "Deleted, and created anew: this is the new stream."
    page.click(".tile[data-path='/joins/a'] a")
    page.wait_for_function("() => document.getElementById('name').textContent === '/joins/a'")


def test_a_connection_that_ends_is_taken_up_again(watched: Watched) -> None:
    with millstream("--sse-ttl-s", "1.2") as server:
        put(server, "/short/a")
        page = board(watched, server, "/short/")
        asked = asked_for(page)
        for number in range(8):
            append(server, "/short/a", f"{number}\n", TEXT)
            if number % 2:  # so that some come while nothing is connected
                with page.expect_request("**/__ds/events"):
                    pass
        watched.wait_for_texts(lines("/short/a"), [str(number) for number in range(8)])
        put(server, "/short/b", "joined later\n")
        watched.wait_for_texts(lines("/short/b"), ["joined later"])
        assert len(followed(asked)) >= 4


def test_the_last_lines_are_kept_and_long_ones_cut(server: Server, watched: Watched) -> None:
    put(server, "/lines/of/text")
    board(watched, server, "/lines/of/*")
    append(server, "/lines/of/text", "".join(f"{number}\n" for number in range(100)), TEXT)
    watched.wait_for_texts(lines("/lines/of/text"), [str(number) for number in range(92, 100)])
    append(server, "/lines/of/text", "x" * 5000 + "\n", TEXT)
    watched.page.wait_for_function(
        "selector => [...document.querySelectorAll(selector)].at(-1).textContent === 'x'.repeat(300) + '…'",
        arg=lines("/lines/of/text"),
    )


def test_hostile_names_and_content_stay_text(server: Server, watched: Watched) -> None:
    name = "/bad/<img src=x onerror=alert(1)>\u202etxt.exe"
    put(server, name, "\n".join(SCRIPTS) + "\n\x1b[2J\u202e\n")
    page = board(watched, server, "/bad/")
    watched.wait_for_texts(".tile .lines li", [*SCRIPTS, "␛[2J⟨U+202E⟩"])
    assert page.text_content(".tile h2") == "/bad/<img src=x onerror=alert(1)>⟨U+202E⟩txt.exe"
    assert page.locator("#tiles :is(script, img, svg, iframe, style)").count() == 0
    assert "taken" not in page.title()


def test_a_board_shows_what_was_searched_for_and_how_much_is_left_out(
    server: Server, watched: Watched
) -> None:
    create_many(server, [f"/crowd/{number:03}" for number in range(150)])
    page = watched.open(server)
    page.fill("#query", "crowd/0")
    page.wait_for_function("() => document.getElementById('count').textContent === '100 streams'")
    page.click("#board-found")
    page.wait_for_function(
        "() => document.getElementById('board-counts').textContent === '100 streams on one connection'"
    )
    page.fill("#board-query", "/crowd/")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.getElementById('board-counts').textContent"
        " === 'the first 100 streams; search to see others'"
    )
    assert page.title() == "Board · millstream"
    page.fill("#board-query", "/nothing/here")
    page.keyboard.press("Enter")
    page.wait_for_selector("#board-hint:not([hidden])")
    put(server, "/nothing/here/yet", "now\n")
    watched.wait_for_texts(lines("/nothing/here/yet"), ["now"])
    assert page.is_hidden("#board-hint")


def test_a_board_shows_what_the_token_allows(watched: Watched) -> None:
    with millstream("--auth-secret", SECRET) as server:
        admin = {"Authorization": f"Bearer {token('admin')}"}
        for name in ("/mine/1", "/theirs/1"):
            put(server, name, "line\n", **admin)
        page = watched.page
        page.goto(f"{server.url}/__ds/ui#/board")
        page.click("#board-problem button")
        page.fill("#token [name=token]", token("read:/mine/*"))
        page.click("#token .primary")
        watched.wait_for_texts(lines("/mine/1"), ["line"])
        watched.wait_for_texts(".tile h2", ["/mine/1"])
        put(server, "/mine/2", "two\n", **admin)
        put(server, "/theirs/2", "two\n", **admin)
        watched.wait_for_texts(lines("/mine/2"), ["two"])
        watched.wait_for_texts(".tile h2", ["/mine/1", "/mine/2"])


def test_the_list_follows_its_visible_rows_and_no_others(watched: Watched) -> None:
    with millstream() as server:
        names = [f"/rows/{number:03}" for number in range(300)]
        create_many(server, names)
        page = watched.open(server)
        page.click("#tree")  # a flat list
        page.wait_for_selector(".item:has-text('/rows/000')")
        asked = asked_for(page)
        page.focus("#list")
        page.keyboard.press("End")
        page.wait_for_selector(".item:has-text('/rows/299')")
        watched.wait_until(lambda: any("/rows/299" in streams for streams in followed(asked)))
        page.route("**/__ds/streams*", lambda route: route.abort())  # no listing helps from now on
        append(server, "/rows/299", "x" * 1024, TEXT)
        page.wait_for_selector(".item:has-text('/rows/299') .details:text('1 KiB')")
        http.post(f"{server.url}/rows/298", headers={"Stream-Closed": "true"}).raise_for_status()
        page.wait_for_selector(".item:has-text('/rows/298').is-closed")
        latest = followed(asked)[-1]
        assert "/rows/299" in latest
        assert len(latest) < 40
        assert set(latest) <= set(names[-40:])
        page.unroute("**/__ds/streams*")
