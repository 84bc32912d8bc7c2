"""How the page is served: what it may do, where it is found, and what is not there."""

import re
from collections.abc import Iterator

import httpx
import pytest

from browser.watching import http
from running import Server, durable_millstream, millstream, uvicorn_server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Without a browser: these need none."""
    with millstream() as server:
        yield server


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_the_page_and_all_that_it_loads_come_with_a_strict_policy(server: Server) -> None:
    for root in ("/__ds/", "/v1/stream/__ds/"):
        page = http.get(f"{server.url}{root}ui")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        loaded = re.findall(r'(?:src|href)="(ui/[^"]+)"', page.text)
        assert {"ui/main.js", "ui/base.css"} <= set(loaded)
        modules = set(loaded)
        while modules:
            answer = http.get(f"{server.url}{root}{modules.pop()}")
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"].split("; ")
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
            if answer.url.path.endswith(".js"):
                assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
                imported = {f"ui/{name}" for name in re.findall(r'from "\./([^"]+)"', answer.text)}
                modules |= imported - set(loaded)
                loaded += imported


def test_what_has_not_changed_is_not_sent_again(server: Server) -> None:
    for path in ("/__ds/ui", "/__ds/ui/main.js"):
        tag = http.get(server.url + path).headers["etag"]
        again = http.get(server.url + path, headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        "ui/nothing.js",
        "ui/",
        "ui/index.html",
        "ui/../pages.py",
        "ui/%2e%2e/pages.py",
        "ui/..%2fpages.py",
        "ui//main.js",
        "ui/sub/main.js",
    ],
)
def test_there_is_nothing_but_the_files_of_the_page(server: Server, path: str) -> None:
    with httpx.Client(base_url=server.url) as client:
        request = client.build_request("GET", "/__ds/x")
        request.url = request.url.copy_with(raw_path=f"/__ds/{path}".encode())
        assert client.send(request).status_code in (400, 404)


def test_a_browser_at_the_root_is_sent_to_the_page_and_others_are_told_what_is_wrong(server: Server) -> None:
    sent = http.get(f"{server.url}/", headers=BROWSER, follow_redirects=True)
    assert (sent.status_code, sent.url.path) == (200, "/__ds/ui")
    for method, headers in (("GET", {}), ("PUT", BROWSER), ("GET", {"Accept": "application/json"})):
        answer = http.request(method, f"{server.url}/", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_NAME")


def test_the_page_knows_where_it_is() -> None:
    with durable_millstream("--path", "/v1/stream") as server:
        assert 'content="/__ds/ui"' in http.get(f"{server.url}/v1/stream/__ds/ui").text
        sent = http.get(f"{server.url}/v1/stream/", headers=BROWSER, follow_redirects=True)
        assert sent.url.path == "/v1/stream/__ds/ui"
    with uvicorn_server() as server:
        assert 'content="/v1/stream/__ds/ui"' in http.get(f"{server.url}/v1/stream/__ds/ui").text


def test_the_page_itself_needs_no_token() -> None:
    with millstream("--auth-secret", "a secret that is long enough") as server:
        assert http.get(f"{server.url}/__ds/ui").status_code == 200
        assert http.post(f"{server.url}/__ds/ui").status_code == 405
