"""Webhook targets (rule S3): which URLs and which addresses a server may be made to dial."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.webhook_targets import (
    PUBLIC_ONLY,
    Policy,
    Rejected,
    Target,
    check_target,
    is_allowed_address,
    may_dial,
    parse_policy,
)

DEVELOPMENT = Policy(in_development=True)


def target(url: str, policy: Policy = PUBLIC_ONLY) -> Target:
    found = check_target(url, policy)
    assert isinstance(found, Target), found
    return found


def is_rejected(url: str, policy: Policy = PUBLIC_ONLY) -> bool:
    return isinstance(check_target(url, policy), Rejected)


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com",
        "https://hooks.example.com/a/b?c=d&e",
        "HTTPS://Hooks.Example.COM:8443/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "https://[2606:4700::1111]:444/x",
        "https://a_b.example/",
        "https://xn--bcher-kva.example/",
        "https://1.2.3.example.com/",
        "https://hooks.example.com:65535/",
        "https://hooks.example.com/a%20b",
        "https://0x7f.example.com/",
    ],
)
@pytest.mark.parametrize("policy", [PUBLIC_ONLY, DEVELOPMENT], ids=["production", "development"])
def test_public_targets_are_allowed(url: str, policy: Policy) -> None:
    assert isinstance(check_target(url, policy), Target)


PRIVATE = [
    "0.0.0.0",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::808:808",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "4000::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "febf::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_refused_as_text_and_as_what_a_name_resolves_to(address: str) -> None:
    literal = f"[{address}]" if ":" in address else address
    assert is_rejected(f"https://{literal}/")
    assert is_rejected(f"https://{literal}/", DEVELOPMENT), "https has no exception in development"
    for policy in (PUBLIC_ONLY, DEVELOPMENT):
        parsed = ipaddress.ip_address(address)
        assert not is_allowed_address(parsed, policy)
        assert not may_dial(target("https://hooks.example.com/"), parsed, policy)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "172.32.0.1", "172.15.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::8.8.8.8"]
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_allowed_address(ipaddress.ip_address(address), PUBLIC_ONLY)


def test_an_address_of_one_link_is_refused() -> None:
    assert not is_allowed_address(ipaddress.ip_address("2606:4700::1%eth0"), PUBLIC_ONLY)


@pytest.mark.parametrize(
    "host",
    [
        # 127.0.0.1, as libraries of the C world read it
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7F.0.0.1",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.01",
        "127.0.0.0x1",
        "00127.0.0.1",
        "127.000.000.001",
        "0",
        "0x",
        "0x0",
        "1.1.1",
        "10.1",
        "169.254.43518",
        # more than four numbers, or larger ones
        "127.0.0.1.1",
        "256.0.0.1",
        "1.2.3.4.",
        "4294967297",
        "hooks.example.0",
        "hooks.example.0x1f",
        # trailing dots, empty parts
        "hooks.example.com.",
        "localhost.",
        "127.0.0.1.",
        ".example.com",
        "hooks..example.com",
        ".",
        # other digits and dots, percent signs
        "１２７.０.０.１",
        "127。0。0。1",
        "①②⑦.⓪.⓪.①",
        "%31%32%37.0.0.1",
        "127.0.0.1%00",
        "127.0.0.1%2f",
        "ⓛocalhost",
        # IPv6
        "::1",
        "[::1",
        "::1]",
        "[::1%lo]",
        "[fe80::1%25eth0]",
        "[::1%25]",
        "[:]",
        "[::ffff:127.1]",
        "[0::0::1]",
        "[127.0.0.1]",
        "[v1.fe80]",
        "[]",
        # names
        "-a.example.com",
        "a-.example.com",
        "a" * 64 + ".com",
        "a." * 127 + "com",
        "exa mple.com",
        "ex*mple.com",
    ],
)
@pytest.mark.parametrize("scheme", ["https", "http"])
@pytest.mark.parametrize("policy", [PUBLIC_ONLY, DEVELOPMENT], ids=["production", "development"])
def test_unusual_spellings_of_hosts_are_refused(host: str, scheme: str, policy: Policy) -> None:
    assert is_rejected(f"{scheme}://{host}/", policy)
    assert is_rejected(f"{scheme}://{host}:8080/", policy)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks",
        "//hooks.example.com/",
        "https:hooks.example.com",
        "https:/hooks.example.com/",
        "https:///x",
        "ftp://hooks.example.com/",
        "file:///etc/passwd",
        "gopher://hooks.example.com/",
        "unix:///tmp/s",
        "data:,x",
        "javascript:alert(1)",
        "http://hooks.example.com/",
        "http://8.8.8.8/",
        "https://user@hooks.example.com/",
        "https://user:pass@hooks.example.com/",
        "https://hooks.example.com@127.0.0.1/",
        "https://127.0.0.1#@hooks.example.com/",
        "https://hooks.example.com#fragment",
        "https://hooks.example.com\\@10.0.0.1/",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:65536/",
        "https://hooks.example.com:99999/",
        "https://hooks.example.com:/x y",
        "https://hooks.example.com:+443/",
        "https://hooks.example.com:443:443/",
        "https://hooks.example.com:http/",
        "https://hooks.example.com: 443/",
        "https://hooks.example.com:４４３/",
        " https://hooks.example.com/",
        "https://hooks.example.com/ ",
        "https://hooks.example.com/\r\nX: y",
        "https://hooks.example.com/\n",
        "https://hooks.example.com/\x00",
        "https://hooks.example.com/\t",
        "https://hooks.\nexample.com/",
        "https://hooks.example.com/ü",
        "https://bücher.example/",
        "https://hooks.example.com/<script>",
        "https://hooks.example.com/" + "a" * 2048,
        "https://localhost/",
        "https://worker/",
        "https://metadata.google.internal/",
        "https://printer.local/",
        "https://a.localhost/",
        "https://router.lan/",
        "https://nas.home.arpa/",
    ],
)
@pytest.mark.parametrize("policy", [PUBLIC_ONLY, DEVELOPMENT], ids=["production", "development"])
def test_other_urls_are_refused(url: str, policy: Policy) -> None:
    assert is_rejected(url, policy)


@pytest.mark.parametrize(
    "url", ["http://localhost:3000/x", "http://LOCALHOST/", "http://127.0.0.1:1/", "http://127.0.0.255/"]
)
def test_localhost_is_allowed_in_development_only(url: str) -> None:
    assert is_rejected(url)
    assert isinstance(check_target(url, DEVELOPMENT), Target)


@pytest.mark.parametrize(
    "url", ["http://127.0.1.1/", "http://[::1]/", "http://10.0.0.1/", "http://a.localhost/"]
)
def test_development_allows_no_more_than_that(url: str) -> None:
    assert is_rejected(url, DEVELOPMENT)


def test_a_name_that_resolves_to_loopback_is_not_localhost() -> None:
    loopback = ipaddress.ip_address("127.0.0.1")
    assert not may_dial(target("https://hooks.example.com/"), loopback, DEVELOPMENT)
    localhost = target("http://localhost/", DEVELOPMENT)
    assert may_dial(localhost, loopback, DEVELOPMENT)
    assert may_dial(localhost, ipaddress.ip_address("::1"), DEVELOPMENT)
    assert not may_dial(localhost, ipaddress.ip_address("10.0.0.1"), DEVELOPMENT)
    assert not may_dial(localhost, loopback, PUBLIC_ONLY)


@pytest.mark.parametrize(
    ("entry", "allowed", "refused"),
    [
        (
            "worker.internal",
            ["https://worker.internal/"],
            ["http://worker.internal/", "https://a.worker.internal/"],
        ),
        ("http://worker", ["http://worker:8000/", "https://worker/"], ["http://worker2/"]),
        (
            "*.svc.cluster.local",
            ["https://a.b.svc.cluster.local/"],
            ["https://svc.cluster.local/", "https://xsvc.cluster.local/"],
        ),
        (
            "10.1.0.0/16",
            ["https://10.1.2.3/"],
            ["https://10.2.0.1/", "http://10.1.2.3/", "https://[::ffff:10.1.2.3]/"],
        ),
        ("http://10.1.2.3", ["http://10.1.2.3:8000/"], ["http://10.1.2.4/"]),
        ("fd00::/8", ["https://[fd00::1]/"], ["https://[fe80::1]/", "https://10.0.0.1/"]),
        ("http://[fd00::1]/", ["http://[fd00::1]/"], ["http://[fd00::2]/"]),
        ("Worker.Internal", ["https://WORKER.internal/"], []),
        ("localhost", ["https://localhost/"], ["http://localhost/"]),
    ],
)
def test_an_operator_allows_hosts_and_networks(entry: str, allowed: list[str], refused: list[str]) -> None:
    policy = parse_policy([entry], in_development=False)
    assert not [url for url in allowed if is_rejected(url, policy)]
    assert not [url for url in refused if not is_rejected(url, policy)]


def test_an_allowed_network_is_allowed_for_names_an_allowed_name_for_every_address() -> None:
    policy = parse_policy(["10.1.0.0/16", "worker.internal"], in_development=False)
    inside, outside = ipaddress.ip_address("10.1.0.1"), ipaddress.ip_address("10.2.0.1")
    public, named = target("https://hooks.example.com/", policy), target("https://worker.internal/", policy)
    assert may_dial(public, inside, policy)
    assert not may_dial(public, outside, policy)
    assert may_dial(named, outside, policy)


@pytest.mark.parametrize(
    "entry", ["", "*", "*.", "10.0.0.1/8", "http://", "a b", "a/b", "host:80", "127.1", "ftp://x", "-a"]
)
def test_an_entry_that_means_nothing_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match="is not a host name"):
        parse_policy([entry], in_development=False)


def test_a_target_says_how_to_reach_it() -> None:
    found = target("https://Hooks.Example.com:8443/a?b=c")
    assert (found.host, found.port, found.request_target) == ("hooks.example.com", 8443, "/a?b=c")
    assert found.authority == "hooks.example.com:8443"
    assert target("https://hooks.example.com").authority == "hooks.example.com"
    assert target("https://[2606:4700:0::1]/").authority == "[2606:4700::1]"
    assert target("https://hooks.example.com?x").request_target == "/?x"


@given(url=st.text(max_size=60) | st.from_regex(r"https?://[0-9a-fx.:\[\]%@]{1,30}/?", fullmatch=True))
def test_whatever_is_allowed_is_a_name_or_a_public_address(url: str) -> None:
    found = check_target(url, PUBLIC_ONLY)
    if isinstance(found, Target):
        assert found.is_secure
        assert found.host.isascii()
        assert found.address is None or is_allowed_address(found.address, PUBLIC_ONLY)
        assert found.address is not None or not found.host.rpartition(".")[2].isdigit()


@given(number=st.integers(0, 2**32 - 1))
def test_an_ipv4_address_is_as_private_inside_nat64_as_outside(number: int) -> None:
    plain = is_allowed_address(ipaddress.IPv4Address(number), PUBLIC_ONLY)
    assert is_allowed_address(ipaddress.IPv6Address((0x64FF9B << 96) | number), PUBLIC_ONLY) == plain
    for prefix in (0, 0xFFFF << 32, 0x2002 << 112):
        assert not is_allowed_address(ipaddress.IPv6Address(prefix | number), PUBLIC_ONLY)
    assert not is_allowed_address(ipaddress.IPv6Address((0x2002 << 112) | (number << 80)), PUBLIC_ONLY)
