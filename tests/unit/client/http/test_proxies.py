"""Which proxy the environment names."""

import pytest

from millstream.client.core.transport import Origin
from millstream.client.http.proxies import Proxy, environment_proxy, parse_proxy

PLAIN = Origin("streams.example", 80, tls=False)
SECURE = Origin("streams.example", 443, tls=True)
PROXY = Proxy("proxy.example", 3128)
URL = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("environment", "plain", "secure"),
    [
        ({}, None, None),
        ({"HTTP_PROXY": URL}, PROXY, None),
        ({"https_proxy": "proxy.example:3128"}, None, PROXY),
        ({"ALL_PROXY": URL}, PROXY, PROXY),
        ({"HTTP_PROXY": URL, "http_proxy": ""}, None, None),
        ({"HTTP_PROXY": URL, "REQUEST_METHOD": "GET"}, None, None),
        ({"ALL_PROXY": URL, "NO_PROXY": "*"}, None, None),
        ({"ALL_PROXY": URL, "NO_PROXY": "other.example, streams.example"}, None, None),
        ({"ALL_PROXY": URL, "no_proxy": ".example"}, None, None),
        ({"ALL_PROXY": URL, "no_proxy": "*.EXAMPLE"}, None, None),
        ({"ALL_PROXY": URL, "no_proxy": "streams.example:443"}, PROXY, None),
        ({"ALL_PROXY": URL, "no_proxy": "ms.example,,"}, PROXY, PROXY),
    ],
)
def test_the_environment_names_a_proxy(
    environment: dict[str, str], plain: Proxy | None, secure: Proxy | None
) -> None:
    assert environment_proxy(PLAIN, environment) == plain
    assert environment_proxy(SECURE, environment) == secure


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine_is_not_behind_a_proxy(host: str) -> None:
    assert environment_proxy(Origin(host, 80, tls=False), {"ALL_PROXY": URL}) is None


def test_networks_are_reached_directly() -> None:
    environment = {"ALL_PROXY": URL, "NO_PROXY": "10.0.0.0/8"}
    assert environment_proxy(Origin("10.1.2.3", 80, tls=False), environment) is None
    assert environment_proxy(Origin("11.1.2.3", 80, tls=False), environment) == PROXY


def test_credentials_are_decoded() -> None:
    assert parse_proxy("http://us%65r:p%40ss@h").authorization == b"Basic dXNlcjpwQHNz"


@pytest.mark.parametrize("url", ["socks5://h:1", "https://h", "http://"])
def test_other_proxies_are_refused_without_their_password(url: str) -> None:
    with pytest.raises(ValueError, match="a proxy's URL is http://host:port"):
        parse_proxy(url)
