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
        page.fill("#message", "2")
        page.click("#composer .primary")
        page.wait_for_selector("#append-problem:not([hidden])")
        problem = page.text_content("#append-problem") or ""
        assert problem.startswith("The token does not allow to write this stream.")

        page.click("#token-open")
        page.fill("#token [name=token]", token("admin"))
        page.click("#token .primary")
        page.wait_for_function("() => document.querySelectorAll('.item').length === 2")
        watched.wait_for_state("Live")
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
        page.wait_for_selector("#list-problem:not([hidden])")
        assert "The token is not valid" in (page.text_content("#list-problem") or "")
        page.wait_for_selector(".item", state="detached")  # the list is drawn with the next frame
