"""On a server that asks for tokens: the page asks the person for one, and keeps it in its tab only."""

import time

import jwt

from browser.watching import JSON, Watched, append, http
from running import millstream

SECRET = "a secret that is long enough for HS256"


def token(scope: str) -> str:
    return jwt.encode({"scope": scope, "exp": time.time() + 600}, SECRET, "HS256")


def test_a_token_is_asked_for_used_and_its_limits_told(watched: Watched) -> None:
    with millstream("--auth-secret", SECRET) as server:
        admin = {"Authorization": f"Bearer {token('admin')}"}
        for name in ("/mine", "/theirs"):
            http.put(server.url + name, headers={**JSON, **admin}).raise_for_status()
        page = watched.open(server)
        page.click("#list-problem button")
        page.fill("#token [name=token]", token("read:/mine"))
        page.click("#token .primary")
        page.wait_for_selector(".item")
        assert page.eval_on_selector_all(".item .path", "all => all.map(p => p.textContent)") == ["/mine"]
        page.wait_for_selector("#metrics-problem:not([hidden])")
        page.click(".item")
        watched.wait_for_state("Live")
        append(server, "/mine", "[1]", {**JSON, **admin})
        watched.wait_for_rows(["1"])
        page.wait_for_selector("#read-only:not([hidden])")
        assert page.text_content("#read-only") == "The token does not allow to write here."
        assert page.is_hidden("#composer")
        assert "This token allows to read. It expires:" in (page.get_attribute("#token-open", "title") or "")
        changes = ("#change-open", "#trim-open", "#close-open", "#delete-open")
        for button in ("#create-open", "#fork-open", *changes):
            assert page.is_disabled(button)
            assert "does not allow" in (page.get_attribute(button, "title") or "")

        page.click("#token-open")
        page.fill("#token [name=token]", token("admin"))
        page.click("#token .primary")
        page.wait_for_function("() => document.querySelectorAll('.item').length === 2")
        watched.wait_for_state("Live")
        page.wait_for_selector("#composer:not([hidden])")
        assert page.is_enabled("#delete-open")
        page.fill("#message", "2")
        page.click("#composer .primary")
        watched.wait_for_rows(["1", "2"])
        page.click(".brand")
        page.wait_for_function("() => (document.querySelector('.chart .value')?.textContent ?? '–') !== '–'")
        assert page.is_hidden("#metrics-problem")
        page.reload()
        page.wait_for_selector(".item")
        assert page.evaluate("() => localStorage.getItem('millstream-token')") is None

        page.click("#token-open")
        page.fill("#token [name=token]", "nonsense")
        page.click("#token .primary")
        page.wait_for_selector("#token .problem:not([hidden])")
        assert "token" in (page.text_content("#token .problem") or "")
        page.keyboard.press("Escape")
        assert page.text_content("#token-open") == "Token: set"  # the one that is valid is kept


def test_why_a_stream_may_not_be_read_is_told_where_it_would_be(watched: Watched) -> None:
    with millstream("--auth-secret", SECRET) as server:
        admin = {"Authorization": f"Bearer {token('admin')}"}
        http.put(f"{server.url}/theirs", headers={**JSON, **admin}).raise_for_status()
        page = watched.open(server, "/theirs")
        page.wait_for_selector("#stream-problem:not([hidden])")
        told = http.get(f"{server.url}/theirs").json()["detail"]
        assert page.text_content("#stream-problem") == f"{told} Enter a token"
        page.click("#stream-problem button")
        page.fill("#token [name=token]", token("read:/mine write:/mine"))
        page.click("#token .primary")
        mine = {"Authorization": f"Bearer {token('read:/mine write:/mine')}"}
        told = http.get(f"{server.url}/theirs", headers=mine).json()["detail"]
        page.wait_for_function(
            "want => document.getElementById('stream-problem').textContent === want",
            arg=f"{told} Enter another token",
        )
        assert page.is_enabled("#create-open")  # it may write /mine
        page.click("#stream-problem button")
        page.fill("#token [name=token]", token("read:/theirs write:/mine"))
        page.click("#token .primary")
        watched.wait_for_state("Live")
        assert page.is_hidden("#stream-problem")
        page.wait_for_selector("#read-only:not([hidden])")
        assert page.is_enabled("#fork-open")  # into /mine
        assert page.is_disabled("#delete-open")
        page.click(".brand")
        page.wait_for_function(
            "() => document.getElementById('metrics-problem').textContent.includes('does not allow')"
        )
        assert page.is_hidden("#charts")


def test_a_token_that_cannot_be_sent_is_refused_in_the_dialog(watched: Watched) -> None:
    with millstream("--auth-secret", SECRET) as server:
        page = watched.open(server)
        page.click("#token-open")
        page.fill("#token [name=token]", "two words")
        page.click("#token .primary")
        page.wait_for_selector("#token .problem:not([hidden])")
        assert "one word" in (page.text_content("#token .problem") or "")
