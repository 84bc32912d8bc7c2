"""Take the README's picture of the web page: `python docs/take_picture.py` writes docs/images/page.png.

It is a screenshot of Chromium with a real server, some streams, and one of them being written.
"""

import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "page.png"
MAX_BYTES = 200 * 1024
ANSWER = "A durable stream keeps what it was given, and a reader goes on where it was."


def take() -> None:
    """Create streams, follow one on the page while it grows, and take a screenshot."""
    from browser.watching import JSON, TEXT, Watched, append, chromium, http
    from running import millstream

    with chromium() as browser, millstream() as server:
        for number in range(1, 9):
            http.put(f"{server.url}/chat/{number}", headers=JSON)
            if number > 1:
                append(
                    server,
                    f"/chat/{number}",
                    json.dumps({"role": "user", "content": "Hello " * number**3}),
                    JSON,
                )
        http.put(f"{server.url}/jobs/17/log", headers=TEXT)
        append(server, "/jobs/17/log", "collected 214 items\n214 passed\n", TEXT)
        http.post(f"{server.url}/jobs/17/log", headers={"Stream-Closed": "true"})
        http.put(f"{server.url}/sensors/wind", headers=JSON)
        http.put(f"{server.url}/sensors/tide", headers=JSON)
        watched = Watched(browser, viewport={"width": 1200, "height": 690}, color_scheme="light")
        page = watched.open(server, "/chat/1")
        page.wait_for_selector(".item")
        append(server, "/chat/1", json.dumps({"role": "user", "content": "What is a durable stream?"}), JSON)
        for index, token in enumerate(ANSWER.split()):
            append(server, "/chat/1", json.dumps({"index": index, "token": token}), JSON)
            time.sleep(0.2)  # like a model, so that the charts show something
        page.wait_for_function(f"document.querySelectorAll('.row .what').length >= {len(ANSWER.split()) + 1}")
        page.screenshot(path=PICTURE)
        assert watched.complaints == []


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    take()
    size = PICTURE.stat().st_size
    assert size < MAX_BYTES, f"{size} bytes are too many"
    print(f"{PICTURE.relative_to(ROOT)}: {size / 1024:.0f} KiB")
