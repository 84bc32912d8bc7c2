"""The page stays usable under load: 100,000 streams in the list, 10,000 messages a second in the log."""

import threading
import time

import httpx

from browser.watching import JSON, Watched, create_many, http, keep_numbers
from running import Server

STREAMS = 100_000
PER_SECOND = 10_000
SECONDS = 3
BATCH = 250
LONGEST_GAP_MS = 4000  # a page that draws everything hangs for longer; machines of tests have slow seconds


def test_a_hundred_thousand_streams_are_listed(server: Server, watched: Watched) -> None:
    create_many(server, [f"/many/{number:06}" for number in range(STREAMS)])
    page = watched.open(server)
    begun_s = time.monotonic()
    watched.begin_measuring()
    page.wait_for_function(
        "() => document.getElementById('count').textContent === '100,000 streams'", timeout=30_000
    )
    loaded_s = time.monotonic() - begun_s
    loading_gap_ms = watched.longest_gap_ms()
    watched.begin_measuring()
    page.evaluate("""async () => {
        const list = document.getElementById('list');
        for (let step = 0; step <= 60; step += 1) {
            list.scrollTop = list.scrollHeight * step / 60;
            await new Promise(requestAnimationFrame);
        }
    }""")
    page.focus("#list")
    page.keyboard.press("End")
    page.wait_for_selector(".item.active :text('099999')")
    scrolling_gap_ms = watched.longest_gap_ms()
    elements = page.locator(".item").count()
    page.fill("#query", "/many/05")
    page.wait_for_function("() => document.getElementById('count').textContent === '10,000 streams'")
    keep_numbers(
        "100000-streams",
        loaded_s=loaded_s,
        loading_gap_ms=loading_gap_ms,
        scrolling_gap_ms=scrolling_gap_ms,
        elements=elements,
    )
    assert elements < 60
    assert max(loading_gap_ms, scrolling_gap_ms) < LONGEST_GAP_MS


def test_ten_thousand_messages_a_second_are_followed(server: Server, watched: Watched) -> None:
    url = f"{server.url}/fast"
    http.put(url, headers=JSON)
    page = watched.open(server, "/fast")
    watched.wait_for_state("Live")
    sent = 0
    took_s = 0.0

    def send() -> None:
        nonlocal sent, took_s
        with httpx.Client(headers=JSON) as client:
            begun_s = time.monotonic()
            while sent < PER_SECOND * SECONDS:
                batch = ",".join(f'{{"n":{sent + n},"kind":"message","ok":true}}' for n in range(BATCH))
                client.post(url, content=f"[{batch}]").raise_for_status()
                sent += BATCH
                time.sleep(max(0.0, begun_s + sent / PER_SECOND - time.monotonic()))
            took_s = time.monotonic() - begun_s

    sender = threading.Thread(target=send)
    watched.begin_measuring()
    sender.start()
    answers_ms = []
    while sender.is_alive():  # the page still responds, here to a click
        asked_s = time.monotonic()
        page.click("#theme")
        answers_ms.append((time.monotonic() - asked_s) * 1000)
        page.wait_for_timeout(300)
    sender.join()
    page.wait_for_function(
        "want => document.getElementById('counts').dataset.received === want", arg=str(PER_SECOND * SECONDS)
    )
    gap_ms = watched.longest_gap_ms()
    rows = page.locator(".row").count()
    keep_numbers(
        "10000-messages-a-second",
        longest_gap_ms=gap_ms,
        longest_click_ms=max(answers_ms),
        messages_a_second=sent / took_s,
        rows=rows,
    )
    assert f'"n": {sent - 1},' in watched.rows()[-1]
    assert rows == 100
    assert gap_ms < LONGEST_GAP_MS
