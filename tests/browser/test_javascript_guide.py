"""The `EventSource` of the guide for JavaScript in Chromium: exact after a kill and after reloads."""

import signal
import sys
from pathlib import Path

import millstream
from browser.watching import Watched
from docs.blocks import ROOT, blocks_of
from running import free_port, listening_on, started

TOKENS = [f"word-{n} " for n in range(60)]
BLOCKS = [block.text for block in blocks_of(ROOT / "docs/guides/javascript.md") if "follow" in block.text]


def test_a_page_shows_every_token_once(watched: Watched, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "millstream", "serve", "--port", str(port), "--data", str(tmp_path)]
    origin = f"http://127.0.0.1:{port}"
    page = watched.page
    _, follow_events, keep_the_offset = BLOCKS
    script = f"""
        const url = {origin!r} + "/chat/1"
        {follow_events.removeprefix("export ")}
        {keep_the_offset}
        setInterval(() => document.body.textContent = saved.text, 10)
    """
    page.route(
        "**/page",
        lambda route: route.fulfill(content_type="text/html", body=f"<body><script>{script}</script>"),
    )

    def wait_for(tokens: list[str]) -> None:
        page.wait_for_function("text => document.body.textContent === text", arg="".join(tokens))

    with started(command, listening_on(port)) as server:
        answer = millstream.DurableStream.create(f"{origin}/chat/1", content_type="application/json")
        page.goto(f"{origin}/page")
        for token in TOKENS[:20]:
            answer.append({"token": token})
        wait_for(TOKENS[:20])
        server.signal(signal.SIGKILL)
        server.stop()
    with started(command, listening_on(port)):
        for token in TOKENS[20:40]:
            answer.append({"token": token})
        wait_for(TOKENS[:40])
        page.reload()
        wait_for(TOKENS[:40])
        for token in TOKENS[40:]:
            answer.append({"token": token})
        answer.close()
        wait_for(TOKENS)
        page.reload()
        wait_for(TOKENS)
