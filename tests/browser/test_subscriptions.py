"""Subscriptions on the page: their lag, what failed, and an attempt on a click."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from browser.test_hostile import SCRIPTS
from browser.watching import JSON, PHONE, WIDE, Watched, append, http, violations
from running import Server, millstream


class Hook:
    """A receiver of webhooks that fails until it is told otherwise."""

    def __init__(self) -> None:
        self.works = False
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                body = b'{"done":true}'
                self.send_response(200 if hook.works else 500)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def hook() -> Iterator[Hook]:
    found = Hook()
    threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield found
    found.server.shutdown()
    found.server.server_close()


def subscribe(server: Server, id: str, **config: Any) -> None:
    answer = http.put(f"{server.url}/__ds/subscriptions/{id}", json=config)
    assert answer.status_code == 201, answer.text


def row(watched: Watched, id: str) -> list[str]:
    """The cells of one subscription."""
    found: list[list[str]] = watched.page.eval_on_selector_all(
        "#subscriptions-rows tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    (mine,) = [cells for cells in found if cells[0] == id]
    return mine


def wait_for_cell(watched: Watched, id: str, number: int, words: str) -> None:
    watched.page.wait_for_function(
        "([id, number, words]) => [...document.querySelectorAll('#subscriptions-rows tr')].some("
        "row => row.cells[0].textContent === id && row.cells[number].textContent.includes(words))",
        arg=[id, number, words],
    )


def open_subscriptions(watched: Watched, server: Server) -> Any:
    watched.page.goto(f"{server.url}/__ds/ui#/subscriptions")
    return watched.page


def test_a_webhook_that_fails_is_shown_and_retried_on_a_click(
    browser: Any, watched: Watched, hook: Hook
) -> None:
    with millstream() as server:
        page = watched.open(server)
        page.click("#subscriptions-open")
        page.wait_for_selector("#subscriptions-hint:visible")
        subscribe(server, "billing", type="webhook", pattern="orders/*", webhook={"url": hook.url})
        wait_for_cell(watched, "billing", 1, "active")
        assert row(watched, "billing")[2] == "none"
        http.put(f"{server.url}/orders/1", headers=JSON).raise_for_status()
        append(server, "/orders/1", '[{"n": 1}]', JSON)
        wait_for_cell(watched, "billing", 1, "failing")
        wait_for_cell(watched, "billing", 4, "500")
        wait_for_cell(watched, "billing", 2, "1 stream, ")
        assert page.text_content("#subscriptions-counts") == "1 subscription · 1 failing"
        hook.works = True
        page.click("#subscriptions-rows button")  # some attempts later it would come by itself, too
        wait_for_cell(watched, "billing", 1, "active")
        wait_for_cell(watched, "billing", 2, "none")
        assert row(watched, "billing")[5] == "–"
        assert page.is_hidden("#subscriptions-problem")


def test_who_works_is_shown_and_its_wake_stream_is_a_link(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/pool/wake", headers=JSON).raise_for_status()
    subscribe(server, "pool", type="pull-wake", pattern="pool/in/*", wake_stream="pool/wake")
    http.put(f"{server.url}/pool/in/a", headers=JSON, content=b"[1]").raise_for_status()
    http.post(f"{server.url}/__ds/subscriptions/pool/claim", json={"worker": "robot-7"}).raise_for_status()
    page = open_subscriptions(watched, server)
    wait_for_cell(watched, "pool", 1, "working")
    assert page.get_attribute("#subscriptions-rows .badge[title]", "title") == "Claimed by robot-7"
    page.click("#subscriptions-rows a:text-is('/pool/wake')")
    page.wait_for_function("() => document.getElementById('name').textContent === '/pool/wake'")


def test_hostile_subscriptions_stay_text(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/wake", headers=JSON).raise_for_status()
    for number, script in enumerate(SCRIPTS):
        name = f"{number}{script}".replace("/", "").replace("\x00", "")[:200]
        answer = http.put(
            f"{server.url}/__ds/subscriptions/{httpx_quote(name)}",
            json={"type": "pull-wake", "pattern": "x/*", "wake_stream": "wake", "description": script[:200]},
        )
        assert answer.status_code in {201, 400}, answer.text
    page = open_subscriptions(watched, server)
    page.wait_for_selector("#subscriptions-rows tr")
    assert "taken" not in page.title()
    assert page.locator("#subscriptions :is(script, img, iframe, style)").count() == 0
    assert page.locator("#subscriptions a[href^=javascript]").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def httpx_quote(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


def test_a_token_is_asked_for(browser: Any, watched: Watched) -> None:
    with millstream("--auth-secret", "a secret of enough bytes") as guarded:
        page = open_subscriptions(watched, guarded)
        page.wait_for_selector("#subscriptions-state button:text-is('Enter a token')")


@pytest.mark.node
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_can_be_used_in_both_themes_and_sizes_by_the_keyboard(
    browser: Any, axe: str, theme: str, size: dict[str, int], hook: Hook
) -> None:
    with millstream() as server:
        for id in ("billing", "a-quite-long-name-of-a-subscription-that-fails"):
            subscribe(server, id, type="webhook", pattern="orders/**", webhook={"url": hook.url})
        http.put(f"{server.url}/wake/pool", headers=JSON).raise_for_status()
        subscribe(server, "index", type="pull-wake", pattern="docs/**", wake_stream="wake/pool")
        http.put(f"{server.url}/orders/1", headers=JSON, content=b"[1]").raise_for_status()
        watched = Watched(browser, viewport=size, color_scheme=theme)
        page = open_subscriptions(watched, server)
        wait_for_cell(watched, "billing", 4, "500")
        wait_for_cell(watched, "a-quite-long-name-of-a-subscription-that-fails", 4, "500")
        page.wait_for_selector("#subscriptions-rows button")
        page.focus("#subscriptions-table")
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "Retry now"
        assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") != "none"
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")
        watched.keep_picture(f"subscriptions-{theme}-{'wide' if size is WIDE else 'phone'}")
        problems = violations(page, axe)
        watched.context.close()
        assert problems == []
        assert watched.complaints == []
