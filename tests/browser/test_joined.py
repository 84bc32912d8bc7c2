"""One field of JSON messages as running text: chosen, followed, filtered, bounded, never markup."""

import json

from browser.watching import JSON, TEXT, Watched, append, http
from running import Server


def send(server: Server, name: str, *messages: object) -> None:
    append(server, name, json.dumps(list(messages)), JSON)


def chunk(text: str) -> dict[str, object]:
    return {
        "id": "c1",
        "model": "m",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}],
    }


def wait_for_text(watched: Watched, text: str) -> None:
    watched.page.wait_for_function("want => document.getElementById('joined').textContent === want", arg=text)


def test_tokens_are_joined_as_they_arrive(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/tokens", headers=JSON).raise_for_status()
    send(server, "/tokens", chunk("A dur"), chunk("able "), {"id": "c1", "usage": {"tokens": 3}})
    page = watched.open(server, "/tokens")
    watched.wait_for_state("Live")
    page.select_option("#as", "joined")
    wait_for_text(watched, "A durable ")
    assert page.input_value("#field") == "choices[0].delta.content"
    assert page.is_hidden("#log")
    send(server, "/tokens", chunk("stream\nof "), chunk("<b>tokens</b> \u202e"))
    wait_for_text(watched, "A durable stream\nof <b>tokens</b> ⟨U+202E⟩")
    assert page.text_content("#joined-note") == "Messages with choices[0].delta.content: 4 of 5 messages"
    page.click("#copy-open")
    assert page.is_visible("[data-copies='Joined text']")
    page.keyboard.press("Escape")

    page.fill("#field", "model")
    page.press("#field", "Enter")
    wait_for_text(watched, "mmmm")
    page.fill("#field", "nothing.here")
    page.press("#field", "Enter")
    wait_for_text(watched, "")
    page.wait_for_function("() => document.getElementById('joined-note').textContent.includes(': 0 of 5')")
    page.fill("#field", "a[")
    page.press("#field", "Enter")
    page.wait_for_function("() => /not a path/.test(document.getElementById('joined-note').textContent)")
    page.fill("#field", "")  # the page chooses again
    page.press("#field", "Enter")
    wait_for_text(watched, "A durable stream\nof <b>tokens</b> ⟨U+202E⟩")
    page.fill("#filter", "durable")  # nothing has this: filters look at messages
    wait_for_text(watched, "")
    page.fill("#filter", "able")
    wait_for_text(watched, "able ")
    page.fill("#filter", "")
    page.select_option("#as", "pretty")
    page.wait_for_function("() => document.querySelectorAll('.row').length === 5")
    assert page.is_hidden("#joined")


def test_the_field_is_found_in_the_messages_of_common_protocols(server: Server, watched: Watched) -> None:
    page = watched.open(server)
    for number, (message, field) in enumerate(
        [
            ({"type": "text-delta", "id": "1", "delta": "x"}, "delta"),
            (
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
                "delta.text",
            ),
            ({"token": "x", "n": 1, "model": "y"}, "token"),
            ({"a.b": "x"}, '["a.b"]'),
            ("x", ""),
            ({"outer": [{"text": "x"}]}, "outer[0].text"),
        ]
    ):
        name = f"/protocol/{number}"
        http.put(server.url + name, headers=JSON).raise_for_status()
        send(server, name, {"role": "user", "content": {}}, message, message)
        page.evaluate("name => { location.hash = '#/s' + name; }", name)
        page.wait_for_function("want => document.getElementById('name').textContent === want", arg=name)
        watched.wait_for_state("Live")
        page.select_option("#as", "joined")  # the view stays selected for the next streams
        wait_for_text(watched, "xx")
        assert page.input_value("#field") == field


def test_long_text_is_followed_until_somebody_scrolls_back(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/answer", headers=JSON).raise_for_status()
    send(server, "/answer", *({"text": f"word{number} "} for number in range(1500)))
    page = watched.open(server, "/answer")
    watched.wait_for_state("Live")
    page.select_option("#as", "joined")
    page.wait_for_function("() => document.getElementById('joined').textContent.includes('word0 ')")
    assert page.input_value("#from-count") == "2000"
    at_end = """() => {
        const box = document.getElementById('joined');
        return box.scrollHeight - box.scrollTop - box.clientHeight < 4;
    }"""
    page.wait_for_function(at_end)
    send(server, "/answer", {"text": "the end " * 100})
    page.wait_for_function("() => document.getElementById('joined').textContent.includes('the end')")
    page.wait_for_function(at_end)
    page.hover("#joined")
    page.mouse.wheel(0, -500)
    page.wait_for_selector("#newer:not([hidden])")
    assert page.get_attribute("#follow", "aria-pressed") == "false"
    send(server, "/answer", {"text": "more " * 100})
    page.wait_for_function("() => document.getElementById('joined').textContent.includes('more')")
    assert not page.evaluate(at_end)
    page.click("#newer")
    page.wait_for_function(at_end)


def test_the_oldest_text_is_dropped_first(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/much", headers=JSON).raise_for_status()
    send(
        server, "/much", {"text": "first "}, *({"text": "💧" * 30_000} for _ in range(20)), {"text": " last"}
    )
    page = watched.open(server, "/much")
    watched.wait_for_state("Live")
    page.select_option("#as", "joined")
    page.wait_for_function("() => document.getElementById('joined').textContent.endsWith('💧 last')")
    text = page.text_content("#joined") or ""
    assert "first" not in text
    assert set(text) == set("💧 last")  # no character was cut in two
    assert 900_000 < len(text.encode("utf-16-le")) // 2 <= 1_000_000
    assert "the oldest text is no longer shown" in (page.text_content("#joined-note") or "")


def test_other_streams_have_no_joined_text(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/lines", headers=TEXT).raise_for_status()
    page = watched.open(server, "/lines")
    watched.wait_for_state("Live")
    assert page.eval_on_selector_all("#as option", "all => all.map(o => o.value)") == ["plain", "hex"]
