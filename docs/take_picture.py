"""Takes the picture of the page for the README: `python docs/take_picture.py` writes docs/images/page.png.

It is what Chromium shows of a real server with some streams in it, one of which is being written.
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
    """Fill a server, follow a stream on its page while it grows, and take the picture."""
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
        watched = Watched(browser, viewport={"width": 1200, "height": 690}, color_scheme="light")
        page = watched.open(server, "/chat/1")
        page.wait_for_selector(".item")
        append(server, "/chat/1", json.dumps({"role": "user", "content": "What is a durable stream?"}), JSON)
        for index, token in enumerate(ANSWER.split()):
            append(server, "/chat/1", json.dumps({"index": index, "token": token}), JSON)
            time.sleep(0.2)  # as a model would, so that the plots have something to show
        page.wait_for_function(f"document.querySelectorAll('.row .what').length >= {len(ANSWER.split()) + 1}")
        page.screenshot(path=PICTURE)
        assert watched.complaints == []


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    take()
    size = PICTURE.stat().st_size
    assert size < MAX_BYTES, f"{size} bytes are too many"
    print(f"{PICTURE.relative_to(ROOT)}: {size / 1024:.0f} KiB")
