"""Real Chromium, the page in it, and an eye on everything that the page complains about."""

import json
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from running import Server, announced, started

ARTIFACTS = Path(__file__).parent.parent / "artifacts"
JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 375, "height": 720}
http = httpx.Client(verify=False)  # one for all: each loads its certificates, which takes longer than a test

_FLAGS = (
    "--no-sandbox",  # Chromium's does not start for root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A browser writes these by itself, whatever a page does about the answer.
_NETWORK = re.compile(r"Failed to load resource: (the server responded with a status of 4|net::ERR_)")


@contextmanager
def chromium() -> Iterator[Any]:
    """Run the system's Chromium with a profile of its own; skip where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        pytest.skip("the browser tests need Playwright: pip install playwright")
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("the browser tests need Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*_FLAGS])
        yield browser
        browser.close()


class Watched:
    """A page in a context of its own, and what it complained about."""

    def __init__(self, browser: Any, **context: Any) -> None:
        self.context = browser.new_context(**{"viewport": WIDE, **context})
        self.complaints: list[str] = []
        self.page = self.context.new_page()
        self.page.set_default_timeout(
            30_000
        )  # the machine may be busy; what fails takes that long, nothing else
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning") and not _NETWORK.match(message.text):
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:")):
            self.complaints.append(f"asked for {request.url}")

    def open(self, server: Server, name: str = "", path: str = "/__ds/ui") -> Any:
        """Go to the page; `name` is the stream to be shown."""
        self.page.goto(f"{server.url}{path}#/{'s' + name if name else ''}")
        return self.page

    def rows(self) -> list[str]:
        """What the log shows now, without the positions."""
        texts: list[str] = self.page.eval_on_selector_all(
            ".row .what", "rows => rows.map(r => r.textContent)"
        )
        return texts

    def wait_for_rows(self, expected: list[str]) -> None:
        self.wait_for_texts(".row .what", expected)

    def wait_for_texts(self, selector: str, expected: list[str]) -> None:
        """Wait until exactly these texts are shown."""
        self.page.wait_for_function(
            "([selector, want]) => JSON.stringify("
            "[...document.querySelectorAll(selector)].map(element => element.textContent)) === want",
            arg=[selector, json.dumps(expected, separators=(",", ":"), ensure_ascii=False)],
        )

    def wait_for_state(self, words: str) -> None:
        self.page.wait_for_function(
            "want => document.getElementById('state').textContent === want", arg=words
        )

    def wait_until(self, is_so: Callable[[], bool], timeout_s: float = 30) -> None:
        """Wait for what the page does outside of its document, such as its requests."""
        deadline_s = time.monotonic() + timeout_s
        while not is_so():
            assert time.monotonic() < deadline_s
            self.page.wait_for_timeout(20)

    def keep_picture(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")

    def begin_measuring(self) -> None:
        """From now on, note the longest time that the page did not draw a frame."""
        self.page.evaluate("""() => {
            window.longestGapMs = 0;
            let last = performance.now();
            const tick = () => {
                const now = performance.now();
                window.longestGapMs = Math.max(window.longestGapMs, now - last);
                last = now;
                requestAnimationFrame(tick);
            };
            requestAnimationFrame(tick);
        }""")

    def longest_gap_ms(self) -> float:
        gap: float = self.page.evaluate("window.longestGapMs")
        return gap


COLOUR_RULES = ["color-contrast", "link-in-text-block"]


def violations(page: Any, axe: str, rules: list[str] | None = None) -> list[str]:
    """What axe-core finds wrong on the page, however little it matters, by all of its rules or by some."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(axe)
    # Only these leave the page: all that axe-core has to say takes longer to carry over than to find.
    found = page.evaluate(
        "rules => axe.run(document, {resultTypes: ['violations'], ...(rules && {runOnly: rules})})"
        ".then(all => all.violations)",
        rules,
    )
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for rule in found
        for node in rule["nodes"]
    ]


def keep_numbers(name: str, **numbers: float) -> None:
    """Keep what was measured beside the pictures."""
    ARTIFACTS.mkdir(exist_ok=True)
    (ARTIFACTS / f"{name}.json").write_text(json.dumps(numbers, indent=1))


@contextmanager
def killable_millstream(folder: Path, port: int) -> Iterator[Server]:
    """A durable server on a port of ours; how it ends does not matter."""
    command = [sys.executable, "-m", "millstream", "serve", "--store", "log", "--data", str(folder)]
    with started([*command, "--port", str(port)], announced) as server:
        yield server


def create_many(server: Server, names: list[str]) -> None:
    """Create empty streams as fast as one connection can."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as connection:
        asked = b"PUT %b HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\n\r\n"
        for start in range(0, len(names), 500):
            some = names[start : start + 500]
            connection.sendall(b"".join(asked % name.encode() for name in some))
            answers = b""
            while answers.count(b"\r\n\r\n") < len(some):
                answers += connection.recv(2**20)
            assert answers.count(b"HTTP/1.1 201 ") == len(some)


def append(server: Server, name: str, content: str | bytes, headers: dict[str, str]) -> None:
    http.post(server.url + name, content=content, headers=headers).raise_for_status()
