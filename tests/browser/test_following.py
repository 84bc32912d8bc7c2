"""Following a stream in the page: made, read live, cut, resumed, closed."""

import json
import signal
import time
from pathlib import Path

from browser.watching import JSON, TEXT, Watched, append, http, killable_millstream
from running import Server, free_port, millstream, uvicorn_server


def test_a_stream_is_made_and_what_another_client_appends_is_seen(server: Server, watched: Watched) -> None:
    page = watched.open(server)
    page.click("#create-open")
    page.fill("#create [name=path]", "made/here")
    page.click("#create .primary")
    watched.wait_for_state("Live")
    assert page.text_content("#name") == "/made/here"
    assert http.head(f"{server.url}/made/here").headers["content-type"] == "application/json"
    append(server, "/made/here", '[{"n":1},{"n": 12345678901234567890}]', JSON)
    watched.wait_for_rows(['{"n": 1}', '{"n": 12345678901234567890}'])
    assert page.eval_on_selector_all(".place", "all => all.map(p => p.textContent)") == ["0", "8"]
    page.fill("#message", '{"from": "the page"}')
    page.press("#message", "Control+Enter")
    watched.wait_for_rows(['{"n": 1}', '{"n": 12345678901234567890}', '{"from": "the page"}'])
    page.fill("#message", "{no json")
    page.click("#composer .primary")
    page.wait_for_selector("#append-problem:not([hidden])")
    assert "not valid JSON" in (page.text_content("#append-problem") or "")
    page.wait_for_selector(".item[aria-selected=true] :text('/made/here')")


def test_a_stream_is_made_that_keeps_its_newest(server: Server, watched: Watched) -> None:
    """Rule X4."""
    page = watched.open(server)
    page.click("#create-open")
    page.fill("#create [name=path]", "/kept")
    page.fill("#create [name=bytes]", "0")
    page.fill("#create [name=seconds]", "3600")
    page.click("#create .primary")
    assert page.evaluate("() => document.querySelector('#create [name=bytes]').validity.patternMismatch")
    page.fill("#create [name=bytes]", "2048")
    page.click("#create .primary")
    watched.wait_for_state("Live")
    found = http.head(f"{server.url}/kept").headers
    assert (found["stream-retain-bytes"], found["stream-retain-seconds"]) == ("2048", "3600")
    assert page.text_content("[data-fact='Retain bytes']") == "2 KiB"
    assert page.text_content("[data-fact='Retain seconds']") == "3,600 s"


def test_a_cut_is_survived_without_loss_or_doubling(tmp_path: Path, watched: Watched) -> None:
    port = free_port()
    with killable_millstream(tmp_path, port) as server:
        http.put(f"{server.url}/cut", headers=TEXT)
        append(server, "/cut", "before 1\nbefore 2\nunfin", TEXT)
        watched.open(server, "/cut")
        watched.wait_for_rows(["before 1", "before 2", "unfin"])
        server.signal(signal.SIGKILL)
        watched.wait_for_state("Connection lost; reconnecting")
    with killable_millstream(tmp_path, port) as server:
        append(server, "/cut", "ished\nafter 1\n", TEXT)
        watched.wait_for_rows(["before 1", "before 2", "unfinished", "after 1"])
        watched.wait_for_state("Live")
        server.signal(signal.SIGTERM)
        watched.wait_for_state("Connection lost; reconnecting")
    with killable_millstream(tmp_path, port) as server:
        append(server, "/cut", "after 2\n", TEXT)
        watched.wait_for_rows(["before 1", "before 2", "unfinished", "after 1", "after 2"])


def test_the_end_of_a_closed_stream_is_shown(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/ending", headers=TEXT)
    append(server, "/ending", "one\n", TEXT)
    page = watched.open(server, "/ending")
    watched.wait_for_state("Live")
    page.click("#close-open")
    page.fill("#close [name=last]", "two")
    page.click("#close .primary")
    watched.wait_for_state("Ended")
    watched.wait_for_rows(["one", "two"])  # drawn with the next frame
    assert page.text_content(".eof") == "End of stream: closed at offset 8, after 8 B."
    assert page.is_visible("#closed")
    assert page.is_hidden("#composer")
    assert http.head(f"{server.url}/ending").headers["stream-closed"] == "true"
    page.reload()
    watched.wait_for_state("Ended")


def test_a_stream_is_forked_and_deleted(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/a b/ü", headers=JSON)
    append(server, "/a b/ü", "[1,2]", JSON)
    page = watched.open(server, "/a%20b/%C3%BC")
    watched.wait_for_rows(["1", "2"])
    page.click("#fork-open")
    page.fill("#fork [name=path]", "/forked")
    page.fill("#fork [name=offset]", "2")
    page.click("#fork .primary")
    page.wait_for_function("() => document.getElementById('name').textContent === '/forked'")
    watched.wait_for_rows(["1"])
    assert page.text_content("[data-fact='Fork of']") == "/a b/ü"
    assert page.text_content("[data-fact='Inherited']") == "2 B"
    assert page.text_content("[data-fact='Size']") == "0 B"
    page.click("[data-fact='Fork of'] a")
    watched.wait_for_rows(["1", "2"])
    assert page.text_content("#name") == "/a b/ü"
    page.go_back()
    watched.wait_for_rows(["1"])
    page.click("#delete-open")
    page.click("#delete button[value=cancel]")
    assert http.head(f"{server.url}/forked").status_code == 200
    page.click("#delete-open")
    page.click("#delete .danger")
    page.wait_for_selector("#overview:not([hidden])")
    assert http.head(f"{server.url}/forked").status_code == 404


def test_the_last_messages_of_a_fork_are_found_in_what_it_inherited(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/long", headers=JSON)
    for start in range(0, 2000, 500):
        messages = [{"n": n, "pad": "x" * 900} for n in range(start, start + 500)]
        append(server, "/long", json.dumps(messages), JSON)
    http.put(f"{server.url}/long/fork", headers={**JSON, "Stream-Forked-From": "/long"}).raise_for_status()
    append(server, "/long/fork", '{"n":2000}', JSON)
    read_from: list[str] = []
    watched.page.on("request", lambda request: "live=sse" in request.url and read_from.append(request.url))
    page = watched.open(server, "/long/fork")
    page.wait_for_function("() => document.getElementById('counts').dataset.received === '200'")
    assert json.loads(watched.rows()[-1])["n"] == 2000
    assert not any("offset=-1" in url for url in read_from)  # not all of it was read
    assert page.text_content("[data-fact='Inherited']") == "1.76 MiB"


def test_a_refusal_is_told_in_words(server: Server, watched: Watched) -> None:
    page = watched.open(server, "/not/there")
    watched.wait_for_state("There is no stream at /not/there.")
    assert page.text_content("#stream-problem") == "There is no stream at /not/there."
    http.put(f"{server.url}/taken", headers=TEXT)
    page.click("#create-open")
    page.fill("#create [name=path]", "/taken")
    page.click("#create .primary")
    page.wait_for_selector("#create .problem:not([hidden])")
    assert "exists with another" in (page.text_content("#create .problem") or "")


def test_reading_begins_where_one_likes_and_pauses(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/where", headers=JSON)
    for start in range(0, 1200, 200):
        append(
            server,
            "/where",
            json.dumps([{"n": n, "pad": "x" * 900} for n in range(start, start + 200)]),
            JSON,
        )
    page = watched.open(server, "/where")

    def numbers() -> list[int]:
        return [json.loads(row)["n"] for row in watched.rows()]

    page.wait_for_function("() => document.getElementById('counts').dataset.received === '200'")
    assert numbers() == list(range(1100, 1200))  # while it follows, only the last are elements
    page.fill("#from-count", "3")
    page.press("#from-count", "Tab")
    page.wait_for_function("() => document.querySelectorAll('.row').length === 3")
    assert numbers() == [1197, 1198, 1199]
    page.select_option("#from", "now")
    watched.wait_for_rows([])
    watched.wait_for_state("Live")
    page.click("#pause")
    watched.wait_for_state("Paused")
    append(server, "/where", '{"n":1200}', JSON)
    append(server, "/where", '{"n":1201,"word":"Needle"}', JSON)
    page.wait_for_timeout(200)
    assert watched.rows() == []
    page.click("#pause")
    watched.wait_for_rows(['{"n": 1200}', '{"n": 1201, "word": "Needle"}'])
    page.fill("#filter", "needle")
    watched.wait_for_rows(['{"n": 1201, "word": "Needle"}'])
    page.fill("#filter", "")
    page.select_option("#as", "plain")
    watched.wait_for_rows(['{"n":1200}', '{"n":1201,"word":"Needle"}'])
    page.select_option("#from", "start")
    page.wait_for_function("() => document.getElementById('counts').dataset.received === '1202'")
    page.focus("#log")
    page.press("#log", "Home")
    page.wait_for_selector("#newer:not([hidden])")
    for _ in range(100):  # each goes to the beginning of the window, which then moves
        page.press("#log", "Home")
        page.wait_for_timeout(20)
        if numbers()[0] == 0:
            break
    assert numbers() == list(range(len(numbers())))
    assert len(numbers()) <= 300
    page.click("#newer")
    page.wait_for_function(
        "() => document.querySelector('.row:last-child .what')?.textContent.includes('Needle')"
    )


def test_times_are_beside_messages_and_one_can_be_jumped_to(server: Server, watched: Watched) -> None:
    """X7, X8."""
    http.put(f"{server.url}/timed", headers=JSON)
    for n in range(4):
        append(server, "/timed", f'{{"n":{n}}}', JSON)
        time.sleep(1.1 if n == 1 else 0.01)  # a field for a time has seconds
    page = watched.open(server, "/timed")
    watched.wait_for_rows([f'{{"n": {n}}}' for n in range(4)])
    times = page.eval_on_selector_all(".row time", "times => times.map((time) => time.dateTime)")
    assert times == sorted(times)
    assert len(set(times)) == 4
    page.select_option("#from", "time")
    page.fill("#from-time", times[2][:19])  # the browser's zone is UTC
    page.press("#from-time", "Tab")
    watched.wait_for_rows(['{"n": 2}', '{"n": 3}'])
    append(server, "/timed", '{"n":4}', JSON)
    watched.wait_for_rows(['{"n": 2}', '{"n": 3}', '{"n": 4}'])
    assert page.is_visible(".row time")
    page.click("#times")
    assert not page.is_visible(".row time")
    page.select_option("#from", "last")
    page.fill("#from-count", "1")
    page.press("#from-count", "Tab")
    watched.wait_for_rows(['{"n": 4}'])


def test_the_last_lines_of_text(server: Server, watched: Watched) -> None:
    """X8: lines that are written in pieces are whole."""
    http.put(f"{server.url}/lines", headers=TEXT)
    for piece in ("one\ntwo\n", "thr", "ee\n", "four\n", "fi", "ve"):
        append(server, "/lines", piece, TEXT)
    page = watched.open(server, "/lines")
    watched.wait_for_rows(["one", "two", "three", "four", "five"])
    page.fill("#from-count", "2")
    page.press("#from-count", "Tab")
    watched.wait_for_rows(["four", "five"])


def test_a_stream_made_anew_is_read_anew(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/again", headers=TEXT)
    append(server, "/again", "a long line of the first stream\n", TEXT)
    page = watched.open(server, "/again")
    watched.wait_for_rows(["a long line of the first stream"])
    page.click("#pause")
    http.delete(f"{server.url}/again")
    http.put(f"{server.url}/again", headers=TEXT)
    append(server, "/again", "second\n", TEXT)
    page.click("#pause")
    watched.wait_for_rows(["second"])


def test_streams_are_found_by_prefix_glob_and_word(server: Server, watched: Watched) -> None:
    for name in ("/find/job-1", "/find/job-2", "/find/deep/er/thing", "/other"):
        http.put(server.url + name, headers=TEXT)
    page = watched.open(server, path="/v1/stream/__ds/ui")

    def search(text: str, found: list[str]) -> None:
        page.fill("#query", text)
        watched.wait_for_texts(".item .path", found)

    search("/find/", ["/find/deep/er/thing", "/find/job-1", "/find/job-2"])
    search("/find/*", ["/find/job-1", "/find/job-2"])
    search("thin", ["/find/deep/er/thing"])
    search("deep/er", ["/find/deep/er/thing"])
    page.click(".item")
    watched.wait_for_state("Live")
    assert page.text_content("#name") == "/find/deep/er/thing"


def test_an_event_stream_that_the_server_ends_is_taken_up_again(watched: Watched) -> None:
    with millstream("--sse-ttl-s", "1.2") as server:
        http.put(f"{server.url}/short", headers=TEXT)
        page = watched.open(server, "/short")
        watched.wait_for_state("Live")
        page.evaluate("""() => {
            window.states = [];
            new MutationObserver(() => window.states.push(document.getElementById('state').textContent))
                .observe(document.getElementById('state'), {childList: true});
        }""")
        expected = []
        for number in range(6):
            append(server, "/short", f"{number}\n", TEXT)
            expected.append(f"{number}")
            page.wait_for_timeout(250)
        watched.wait_for_rows(expected)
        assert "Connection lost; reconnecting" not in page.evaluate("window.states")


def test_the_page_works_below_a_path(watched: Watched) -> None:
    with millstream("--path", "/v1/stream") as server:
        http.put(f"{server.url}/v1/stream/below", headers=TEXT).raise_for_status()
        page = watched.open(server, "/below", path="/v1/stream/__ds/ui")
        watched.wait_for_state("Live")
        page.click("#fork-open")
        page.click("#fork .primary")
        page.wait_for_function("() => document.getElementById('name').textContent === '/below-fork'")
        assert http.head(f"{server.url}/v1/stream/below-fork").status_code == 200


def test_the_page_works_in_an_asgi_application(watched: Watched) -> None:
    with uvicorn_server() as server:
        page = watched.open(server)
        page.wait_for_selector("#server-facts [data-fact='Version']")
        page.wait_for_function("() => !document.getElementById('create-open').disabled")
        http.put(f"{server.url}/asgi", headers=JSON).raise_for_status()
        page.wait_for_selector(".item:has-text('/asgi')")  # the list is live
        page.click(".item")
        watched.wait_for_state("Live")
        append(server, "/asgi", '{"delta":"a"}', JSON)
        watched.wait_for_rows(['{"delta": "a"}'])
        page.click("#copy-open")
        assert page.text_content("#copies li:first-child pre") == f"{server.url}/asgi"
        page.goto("about:blank")  # ends its live read, which uvicorn would wait for


def test_the_end_stays_in_view_when_the_window_shrinks(server: Server, watched: Watched) -> None:
    """So it is with a phone's keyboard, and when the facts about a stream take another line."""
    http.put(f"{server.url}/shrunk", headers=JSON)
    append(server, "/shrunk", json.dumps([{"token": f"word {n}\n"} for n in range(90)]), JSON)
    page = watched.open(server, "/shrunk")
    watched.wait_for_state("Live")
    for box in ("log", "joined"):
        page.set_viewport_size({"width": 1280, "height": 800})
        if box == "joined":
            page.select_option("#as", box)
        at_the_end = f"""() => {{
            const box = document.getElementById('{box}');
            const below = box.scrollHeight - box.scrollTop - box.clientHeight;
            return box.scrollTop > 0 && below < 4 && document.getElementById('follow').ariaPressed === 'true';
        }}"""
        page.wait_for_function(at_the_end)
        page.set_viewport_size({"width": 1280, "height": 600})
        page.wait_for_function(at_the_end)
