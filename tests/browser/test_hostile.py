"""Hostile content is shown, and does nothing."""

import json

from browser.watching import JSON, TEXT, Watched, append, http
from running import Server

SCRIPTS = [
    "<script>document.title = 'taken'</script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "<svg/onload=alert(1)>",
    '"><iframe srcdoc="<script>parent.alert(1)</script>">',
    "javascript:alert(1)",
    "</textarea></dialog></main><style>*{display:none}</style>",
    "{{constructor.constructor('alert(1)')()}}",
]


def inert(watched: Watched) -> None:
    page = watched.page
    assert "taken" not in page.title()
    assert page.locator("#log :is(script, img, svg, iframe, style, a)").count() == 0
    assert page.is_visible("#name")


def test_markup_stays_text(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/markup", headers=TEXT)
    append(server, "/markup", "\n".join(SCRIPTS) + "\n", TEXT)
    page = watched.open(server, "/markup")
    watched.wait_for_rows(SCRIPTS)
    inert(watched)
    http.put(f"{server.url}/markup.json", headers=JSON)
    append(server, "/markup.json", json.dumps([{script: script} for script in SCRIPTS]), JSON)
    page = watched.open(server, "/markup.json")
    page.wait_for_function("() => document.querySelectorAll('.row').length === 7")
    inert(watched)
    assert [json.loads(row) for row in watched.rows()] == [{script: script} for script in SCRIPTS]
    page.fill("#filter", "<img")
    page.wait_for_function("() => document.querySelectorAll('.row').length === 1")
    watched.keep_picture("hostile")


def test_names_and_types_stay_text_too(server: Server, watched: Watched) -> None:
    name = "/<img src=x onerror=alert(1)>\u202etxt.exe"
    http.put(f"{server.url}{name}", headers={"Content-Type": "text/<b>x</b>"}).raise_for_status()
    page = watched.open(server)
    page.fill("#query", "/<img")
    page.wait_for_function("() => document.querySelectorAll('.item').length === 1")
    assert page.text_content(".item .path") == "/<img src=x onerror=alert(1)>⟨U+202E⟩txt.exe"
    page.click(".item")
    watched.wait_for_state("Live")
    page.click("#delete-open")
    assert page.text_content("#delete .of") == "/<img src=x onerror=alert(1)>⟨U+202E⟩txt.exe"
    page.keyboard.press("Escape")
    page.click("#fork-open")
    assert page.input_value("#fork [name=path]") == "/<img src=x onerror=alert(1)>txt.exe-fork"
    page.keyboard.press("Escape")
    inert(watched)


def test_characters_that_hide_or_reorder_are_made_visible(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/ansi", headers=TEXT)
    hidden = "\x1b[2J\x1b[31mred\x07\x00 \u202egnp.exe\u2066 zero\u200bwidth\n"
    append(server, "/ansi", hidden.encode(), TEXT)
    watched.open(server, "/ansi")
    watched.wait_for_rows(["␛[2J␛[31mred␇␀ ⟨U+202E⟩gnp.exe⟨U+2066⟩ zero⟨U+200B⟩width"])


def test_a_huge_line_is_cut_and_shown_on_request(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/huge", headers=JSON)
    append(server, "/huge", json.dumps({"text": "x" * 5_000_000}), JSON)
    append(server, "/huge", '"after"', JSON)
    page = watched.open(server, "/huge")
    page.wait_for_function("() => document.querySelectorAll('.row').length === 2")
    assert len(watched.rows()[0]) < 5000
    page.click(".more")
    page.wait_for_function("() => document.querySelector('.what')?.textContent.length > 30000")
    assert len(watched.rows()[0]) < 50_000
    page.select_option("#as", "plain")
    page.wait_for_function("() => document.querySelector('.what')?.textContent.length === 20000")


def test_a_line_that_never_ends_is_broken_up(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/endless", headers=TEXT)
    page = watched.open(server, "/endless")
    watched.wait_for_state("Live")
    for _ in range(10):
        append(server, "/endless", "y" * 20_000, TEXT)
    page.wait_for_function("() => document.querySelectorAll('.row').length === 4")
    assert all(len(row) <= 2000 for row in watched.rows())


def test_bytes_are_shown_in_hex(server: Server, watched: Watched) -> None:
    content = bytes(range(256)) + b"<script>alert(1)</script>" + b"\xff" * 40
    http.put(f"{server.url}/bytes", content=content[:100])
    page = watched.open(server, "/bytes")
    watched.wait_for_state("Live")
    append(server, "/bytes", content[100:], {"Content-Type": "application/octet-stream"})
    page.wait_for_function("() => document.querySelectorAll('.row').length === 2")
    lines = "\n".join(watched.rows()).split("\n")
    assert lines[4] == "00000040  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO"
    assert lines[16].endswith("<script>alert(1)")
    shown = bytes.fromhex("".join(line[10:58] for line in lines))
    assert shown == content
    inert(watched)
    page.check("#hex")
    page.fill("#message", "c0 ff 0x")
    page.click("#composer .primary")
    page.wait_for_function("() => document.querySelectorAll('.row')[1]?.textContent.includes('c0 ff')")
    page.fill("#message", "c0f")
    page.click("#composer .primary")
    assert page.text_content("#append-problem") == "Not valid hex. Use pairs of 0-9 and a-f."
