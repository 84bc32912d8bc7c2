"""Web pages that try to use a server without tokens on the machine where they are opened."""

from collections.abc import Iterator

import jwt
import pytest

from running import Server, free_port, millstream, uvicorn_server
from wire.raw_connection import Answer, Wire

SECRET = "a secret that is long enough for HMAC"
EVIL = "http://evil.example"


@pytest.fixture(scope="module", params=["native", "asgi"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with millstream() if request.param == "native" else uvicorn_server() as server:
        with Wire(server.url) as wire:
            assert wire.ask("PUT", "/s", b"private").status == 201
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


def code(answer: Answer) -> tuple[int, bytes]:
    return answer.status, answer.body.partition(b'"code":"')[2].partition(b'"')[0]


def test_a_page_that_rebinds_its_name_reads_nothing(wire: Wire) -> None:
    port = wire.host.partition(":")[2]
    names = ["evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example"]
    names += ["0.0.0.0", "[::]", "192.168.0.1", "[::ffff:10.0.0.1]"]
    for name in names:
        for method, target in [("GET", "/s"), ("GET", "/s?offset=-1&live=sse"), ("GET", "/__ds/streams")]:
            answer = wire.ask(method, target, Host=name)
            assert code(answer) == (403, b"HOST_NOT_ALLOWED"), name
            assert b"private" not in answer.body
        assert code(wire.ask("POST", "/s", b"x", Host=name)) == (403, b"HOST_NOT_ALLOWED"), name
        assert wire.ask("GET", "/__ds/metrics", Host=name).status == 403
        assert wire.ask("OPTIONS", "/s", Host=name).status == 403


@pytest.mark.parametrize("name", ["", ":80", "127.0.0.1@evil.example", "[::1].evil.example", "::1", "127.1"])
def test_a_name_that_is_malformed_is_not_taken_for_ours(server: Server, name: str) -> None:
    with Wire(server.url) as wire:
        assert wire.ask("GET", "/s", Host=name).status in (400, 403)


def test_this_machine_has_several_names(wire: Wire) -> None:
    port = wire.host.partition(":")[2]
    for name in ("localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.8.9.10", "[::1]"):
        assert wire.ask("GET", "/s", Host=name).status == 200, name
        assert wire.ask("GET", "/s", Host=f"{name}:{port}").status == 200, name


FOREIGN = {
    "another origin": {"Origin": EVIL},
    "another port": {"Origin": "http://localhost:1"},
    "no origin": {"Origin": "null"},
    "an empty origin": {"Origin": ""},
    "a name that begins alike": {"Origin": "http://localhost.evil.example"},
    "only Sec-Fetch-Site": {"Sec_Fetch_Site": "cross-site"},
    "Sec-Fetch-Site in capitals": {"Sec_Fetch_Site": "Cross-Site"},
    "both": {"Origin": EVIL, "Sec_Fetch_Site": "cross-site"},
}


@pytest.mark.parametrize("which", FOREIGN)
def test_a_page_of_another_origin_writes_nothing(wire: Wire, which: str) -> None:
    before = wire.ask("HEAD", "/s").headers["stream-next-offset"]
    for method, target in [("POST", "/s"), ("PUT", "/new"), ("DELETE", "/s"), ("POST", "/s?part=a")]:
        answer = wire.ask(method, target, b"" if method == "DELETE" else b"x", **FOREIGN[which])
        assert code(answer) == (403, b"ORIGIN_NOT_ALLOWED"), (method, target)
        assert answer.headers["access-control-allow-origin"] == "*", "so that its developer sees why"
    assert wire.ask("HEAD", "/s").headers["stream-next-offset"] == before
    assert wire.ask("HEAD", "/new").status == 404
    assert wire.ask("GET", "/s", **FOREIGN[which]).status == 200, "the default lets any page read"


OWN = {
    "the server's page": {"Origin": "http://localhost:4437", "Host": "localhost:4437"},
    "in capitals": {"Origin": "http://LocalHost:4437", "Host": "localhost:4437"},
    "behind TLS": {"Origin": "https://localhost", "Host": "localhost"},
    "by its address": {"Origin": "http://[::1]:4437", "Host": "[::1]:4437", "Sec_Fetch_Site": "same-origin"},
    "an address that somebody typed": {"Sec_Fetch_Site": "none"},
    "no page": {},
}


@pytest.mark.parametrize("which", OWN)
def test_the_servers_own_page_may_write(wire: Wire, which: str) -> None:
    assert wire.ask("POST", "/s", b"x", **OWN[which]).status == 204


def test_configured_origins_may_write_and_configured_hosts_are_answered() -> None:
    options = (
        "--cors-origin",
        "*",
        "--cors-origin",
        "https://app.example",
        "--allowed-hosts",
        "Streams.Example",
    )
    with millstream(*options) as server, Wire(server.url) as wire:
        asked = {"Origin": "https://app.example", "Sec_Fetch_Site": "cross-site"}
        assert wire.ask("PUT", "/s", b"x", Host="streams.example:8080", **asked).status == 201
        assert code(wire.ask("POST", "/s", b"x", Origin=EVIL)) == (403, b"ORIGIN_NOT_ALLOWED")
        assert code(wire.ask("GET", "/s", Host="other.example")) == (403, b"HOST_NOT_ALLOWED")


@pytest.mark.parametrize("options", [("--insecure", "--allowed-hosts", "*"), ("--allowed-hosts", "*")])
def test_any_name_can_be_allowed_but_not_writes_from_anywhere(options: tuple[str, ...]) -> None:
    with millstream(*options) as server, Wire(server.url) as wire:
        assert wire.ask("PUT", "/s", b"x", Host="any.example").status == 201
        assert wire.ask("POST", "/s", b"x", Host="any.example", Origin=EVIL).status == 403


def test_a_proxy_that_is_trusted_says_what_the_server_is_called() -> None:
    with millstream("--trust-forwarded") as server, Wire(server.url) as wire:
        wire.ask("PUT", "/s")
        page = {"Origin": "https://public.example", "X_Forwarded_Host": "public.example, inner"}
        assert wire.ask("POST", "/s", b"x", Content_Type="application/octet-stream", **page).status == 204
    with millstream() as server, Wire(server.url) as wire:
        wire.ask("PUT", "/s")
        assert wire.ask("POST", "/s", b"x", Content_Type="application/octet-stream", **page).status == 403


def test_with_tokens_names_and_origins_do_not_matter() -> None:
    token = jwt.encode({"scope": "admin"}, SECRET, algorithm="HS256")
    with millstream("--auth-secret", SECRET) as server, Wire(server.url) as wire:
        asked = {"Host": "any.example", "Origin": EVIL, "Authorization": f"Bearer {token}"}
        assert wire.ask("PUT", "/s", b"x", **asked).status == 201


def test_the_admin_port_on_loopback_is_called_by_names_of_this_machine() -> None:
    port = free_port()
    with millstream("--admin-port", str(port)), Wire(f"http://127.0.0.1:{port}") as wire:
        assert wire.ask("GET", "/metrics", Host=f"127.0.0.1:{port}").status == 200
        assert code(wire.ask("GET", "/metrics", Host="evil.example")) == (403, b"HOST_NOT_ALLOWED")
