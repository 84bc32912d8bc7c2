"""What the page copies: run as it is, in a shell and in Python; never a token."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from browser.test_tokens import SECRET, token
from browser.watching import JSON, TEXT, Watched, append, http
from running import Server, millstream

HOSTILE = """/it's "$HOME" `id`\\ü;!*(x)"""
BODY = """{"quoted": "it's \\"$HOME\\" `id` \\\\ ü"}"""


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    watched = Watched(browser, permissions=["clipboard-read", "clipboard-write"])
    yield watched
    watched.context.close()
    assert watched.complaints == []


def clipboard(watched: Watched) -> str:
    text: str = watched.page.evaluate("() => navigator.clipboard.readText()")
    return text


def copied(watched: Watched, label: str) -> str:
    """Copy an item of the dialog, and give what the clipboard has."""
    button = f"[data-copies='{label}']"
    watched.page.click(button)
    watched.page.wait_for_function(f"() => document.querySelector(`{button}`).textContent === 'Copied'")
    return clipboard(watched)


def run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def content(server: Server, name: str) -> str:
    return http.get(server.url + quote(name)).text


def test_a_stream_is_copied_as_curl_and_as_python_that_run(
    server: Server, watched: Watched, tmp_path: Path
) -> None:
    http.put(server.url + quote(HOSTILE), headers=JSON).raise_for_status()
    page = watched.open(server, quote(HOSTILE))
    watched.wait_for_state("Live")
    page.fill("#message", BODY)
    page.click("#copy-open")
    assert copied(watched, "URL") == page.evaluate(
        "() => document.querySelector(`[data-copies='URL']`).closest('li').querySelector('pre').textContent"
    )
    assert http.head(copied(watched, "URL")).status_code == 200
    assert copied(watched, "Next offset") == "0000000000000000_0000000000000000"
    run(["bash", "-c", copied(watched, "Append with curl")])
    assert content(server, HOSTILE) == f"[{BODY}]"
    program = tmp_path / "copied.py"
    program.write_text(copied(watched, "Append in Python"))
    run([sys.executable, str(program)])
    assert http.get(server.url + quote(HOSTILE)).json()[1] == http.get(server.url + quote(HOSTILE)).json()[0]
    follow = {label: copied(watched, label) for label in ("Follow with curl", "Follow in Python")}
    http.post(server.url + quote(HOSTILE), headers={"Stream-Closed": "true"}).raise_for_status()
    assert BODY in run(["bash", "-c", follow["Follow with curl"]])
    program.write_text(follow["Follow in Python"])
    assert run([sys.executable, str(program)]).count("'quoted'") == 2


def test_text_with_control_characters_is_escaped_for_the_terminal(
    server: Server, watched: Watched, tmp_path: Path
) -> None:
    http.put(f"{server.url}/controls", headers=TEXT).raise_for_status()
    page = watched.open(server, "/controls")
    watched.wait_for_state("Live")
    written = "one\n\ttwo \x1b[31m it's \\n \u202e three"
    page.fill("#message", written)
    page.click("#copy-open")
    for label, suffix in (("Append with curl", ".sh"), ("Append in Python", ".py")):
        text = copied(watched, label)
        assert not any(
            (ord(character) < 32 and character != "\n") or ord(character) == 0x202E for character in text
        )
        program = tmp_path / f"copied{suffix}"
        program.write_text(text)
        run(["bash" if suffix == ".sh" else sys.executable, str(program)], LC_ALL="C.UTF-8")
    assert content(server, "/controls") == f"{written}\n" * 2


def test_a_token_is_never_copied(watched: Watched, tmp_path: Path) -> None:
    with millstream("--auth-secret", SECRET) as server:
        admin = token("admin")
        headers = {**JSON, "Authorization": f"Bearer {admin}"}
        http.put(f"{server.url}/s", content="[1]", headers=headers).raise_for_status()
        watched.page.add_init_script(f"sessionStorage.setItem('millstream-token', '{admin}')")
        page = watched.open(server, "/s")
        watched.wait_for_state("Live")
        page.click("#copy-open")
        labels = page.eval_on_selector_all("[data-copies]", "all => all.map(b => b.dataset.copies)")
        texts = {label: copied(watched, label) for label in labels}
        assert len(texts) == 6
        assert not any(admin in text for text in texts.values())
        run(["bash", "-c", texts["Append with curl"]], MILLSTREAM_TOKEN=admin)
        program = tmp_path / "copied.py"
        program.write_text(texts["Append in Python"])
        run([sys.executable, str(program)], MILLSTREAM_TOKEN=admin)
        assert len(http.get(f"{server.url}/s", headers=headers).json()) == 3


def test_a_message_and_its_offset_are_copied_by_mouse_and_by_keyboard(
    server: Server, watched: Watched
) -> None:
    http.put(f"{server.url}/copied", headers=JSON).raise_for_status()
    append(server, "/copied", '[{"n":1},{"n": 12345678901234567890},3]', JSON)
    page = watched.open(server, "/copied")
    page.wait_for_function("() => document.querySelectorAll('.row').length === 3")
    page.hover(".row:nth-child(2)")
    page.click(".row:nth-child(2) .copy")
    page.wait_for_selector(".copy:text('Copied')")
    assert clipboard(watched) == '{"n": 12345678901234567890}'
    page.click(".row:nth-child(3) .place")
    page.wait_for_selector(".place:text('Copied')")
    after = http.get(f"{server.url}/copied", params={"offset": clipboard(watched)})
    assert after.text == "[3]"

    page.focus("#log")
    page.keyboard.press("Enter")  # the last message
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_selector(".row:nth-child(1) .copy:text('Copied')")
    assert clipboard(watched) == '{"n":1}'
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_selector(".row:nth-child(2) .place:text('Copied')")
    assert clipboard(watched) == "0000000000000000_0000000000000008"
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.id") == "log"


def test_without_a_clipboard_object_the_page_copies_all_the_same(server: Server, watched: Watched) -> None:
    """So it is where a page comes over plain HTTP from another machine."""
    http.put(f"{server.url}/plain", headers=TEXT).raise_for_status()
    page = watched.open(server, "/plain")
    watched.wait_for_state("Live")
    page.evaluate(
        "() => Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})"
    )
    page.click("#copy-open")
    page.click("[data-copies='URL']")
    page.wait_for_selector("[data-copies='URL']:text('Copied')")
    assert page.evaluate("() => document.activeElement.dataset.copies") == "URL"
    page.keyboard.press("Escape")
    page.evaluate("() => delete navigator.clipboard")
    assert clipboard(watched) == f"{server.url}/plain"
