"""The client behind a forward proxy: tunnels for https, complete URLs for http, by the environment."""

import ssl
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream
import millstream.aio
from certificates import issue
from millstream import TransportError
from python_client.forward_proxy import ForwardProxy
from python_client.shells import Async
from running import Server
from running import millstream as serving

HOST = "streams.test"  # no name server knows it: only the proxy does
JSON = "application/json"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return issue(tmp_path_factory.mktemp("tls"), HOST)


@pytest.fixture(scope="module")
def secure_server(certificate: tuple[Path, Path]) -> Iterator[Server]:
    cert, key = certificate
    with serving("--tls-cert", str(cert), "--tls-key", str(key), "--allowed-hosts", HOST) as server:
        yield server


@pytest.fixture
def make_client(shell: Any, certificate: tuple[Path, Path]) -> Iterator[Any]:
    """Clients of the shell under test that trust the certificate."""
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    made: list[Any] = []

    def make(**options: Any) -> Any:
        kind: Any = millstream.aio.HttpClient if isinstance(shell, Async) else millstream.HttpClient
        made.append(kind(tls=trusting, **options))
        return made[-1]

    yield make
    for client in made:
        if isinstance(shell, Async):
            shell.run(client.close())
        else:
            client.close()


def use(shell: Any, url: str, client: Any, live: Any) -> None:
    stream = shell.DurableStream.create(url, content_type=JSON, client=client)
    stream.append(1)
    with shell.IdempotentProducer(stream, "p") as producer:
        producer.append(2)
    stream.close(3)
    with stream.stream(live=live) as response:
        assert response.read_json() == [1, 2, 3]


@pytest.mark.parametrize("live", [False, True, "sse"])
def test_https_goes_through_a_tunnel(
    shell: Any, secure_server: Server, make_client: Any, monkeypatch: pytest.MonkeyPatch, live: Any
) -> None:
    with ForwardProxy(secure_server.url.replace("https:", "http:")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        use(shell, f"https://{HOST}/proxied/{uuid.uuid4()}", make_client(), live)
    assert set(proxy.seen) == {f"CONNECT {HOST}:443 HTTP/1.1"}


@pytest.mark.parametrize("live", [False, True, "sse"])
def test_http_goes_with_complete_urls(
    shell: Any, server: Server, make_client: Any, monkeypatch: pytest.MonkeyPatch, live: Any
) -> None:
    path = f"/proxied/{uuid.uuid4()}"
    with ForwardProxy(server.url) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        use(shell, f"http://{HOST}{path}", make_client(), live)
    assert proxy.seen[0] == f"PUT http://{HOST}{path} HTTP/1.1"
    assert millstream.stream(server.url + path).read_json() == [1, 2, 3]


def test_no_proxy_and_trust_env_go_around_it(
    shell: Any, server: Server, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ForwardProxy(server.url) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with pytest.raises(TransportError) as caught:
            shell.DurableStream(f"http://{HOST}/s", retry=None, client=make_client(trust_env=False)).head()
        assert caught.value.unsent is True
        monkeypatch.setenv("NO_PROXY", HOST)
        with pytest.raises(TransportError):
            shell.DurableStream(f"http://{HOST}/s", retry=None, client=make_client()).head()
    assert proxy.seen == []


def test_a_proxy_that_refuses_is_told_without_its_password(
    shell: Any, server: Server, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ForwardProxy(server.url) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@127.0.0.1:{proxy.port}")
        with pytest.raises(TransportError, match="other credentials") as caught:
            shell.DurableStream(f"https://{HOST}/s", retry=None, client=make_client()).head()
    assert caught.value.unsent is True
    assert "secret" not in str(caught.value)
