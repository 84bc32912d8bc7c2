"""Webhook targets: where may a server be made to send requests?

Whoever creates a webhook makes the server dial an address of their choice, from inside the operator's network
(server-side request forgery). So a target is judged twice, by the same rules:

        when it is created    `check_target` judges the URL's text: scheme, spelling, and a literal address
        when it is dialled    `may_dial` judges every address that the name has at that moment; the server
                              connects to one of those, and asks no resolver again

Allowed are public addresses, by https. Further ones only by the operator:

        worker.internal            this name, whatever its address, by https
        *.svc.cluster.local        names below this one
        10.1.0.0/16, fd00::1       addresses, literal or of a name
        http://worker.internal     the same by http, too: every entry may begin with http://

and, in development, `http://localhost` and `http://127.0.0.x`.

There is one spelling for each address. A host that some library reads as an address in another notation
(decimal, octal, hexadecimal, short, IPv4 inside IPv6, a trailing dot, percent signs) is refused, because two
libraries that read it differently are how such checks are passed.

Rule S3. PROTOCOL.md 6.2, 12.8.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

import msgspec

REJECTED: Final = "WEBHOOK_URL_REJECTED"
MAX_URL_CHARS: Final = 2048

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# The characters of RFC 3986 and no others: no space, control character, backslash or non-ASCII letter, which
# parsers treat differently. No "@": credentials do not belong into a URL that answers show.
_URL = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?"
    r"(?P<query>\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?",
    re.IGNORECASE | re.ASCII,
)
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
# What the last part of a name must not look like: such a host is an address in an unusual notation.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_LOCAL_SUFFIXES: Final = (".localhost", ".local", ".internal", ".intranet", ".lan", ".home.arpa")


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


# IANA's registries of special-purpose addresses, as a table of ours: what the standard library calls global
# differs between versions of Python.
_REFUSED_IPV4: Final = _networks(
    "0.0.0.0/8",  # this host
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # shared by carriers (CGNAT); also a cloud's metadata
    "127.0.0.0/8",  # loopback
    "168.63.129.16/32",  # a cloud's metadata, at a public address
    "169.254.0.0/16",  # link-local; most clouds' metadata
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments; also a cloud's metadata
    "192.0.2.0/24",  # documentation
    "192.88.99.0/24",  # former relays of 6to4
    "192.168.0.0/16",  # private
    "198.18.0.0/15",  # benchmarks of networks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
)
_GLOBAL_IPV6: Final = ipaddress.IPv6Network("2000::/3")
_REFUSED_IPV6: Final = _networks(
    "2001::/23",  # protocol assignments; Teredo, which carries IPv4 addresses, is in it
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4: carries an IPv4 address
    "3fff::/20",  # documentation
)
# Where networks without IPv4 find it: its last 32 bits are the address that is reached.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_DEVELOPMENT: Final = _networks("127.0.0.0/24", "::1/128")


class Permission(msgspec.Struct, frozen=True):
    """An entry of the operator's list: a name, names below one, or a network."""

    name: str = ""
    below: bool = False
    network: Network | None = None
    by_http: bool = False

    def covers_name(self, host: str) -> bool:
        """Tell whether a host is named by this entry."""
        if self.network is not None:
            return False
        return host.endswith("." + self.name) if self.below else host == self.name

    def covers_address(self, address: Address) -> bool:
        """Tell whether an address is in this entry's network."""
        return (
            self.network is not None and address.version == self.network.version and address in self.network
        )


class Policy(msgspec.Struct, frozen=True):
    """What the operator allows beyond public addresses."""

    permissions: tuple[Permission, ...] = ()
    in_development: bool = False
    """Whether http to localhost and 127.0.0.x is allowed."""


PUBLIC_ONLY: Final = Policy()


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that may be dialled, if its addresses may be."""

    is_secure: bool
    host: str
    """In lower case; an address is without brackets."""
    port: int
    request_target: str
    """Path and query, as the request line has them."""
    address: Address | None
    """The host, when it is a literal address."""

    @property
    def authority(self) -> str:
        """The value of `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (
            host
            if self.port == _DEFAULT_PORTS["https" if self.is_secure else "http"]
            else f"{host}:{self.port}"
        )


class Rejected(msgspec.Struct, frozen=True):
    """Why a URL may not be a webhook's; the code is `REJECTED`."""

    reason: str


def parse_policy(entries: Iterable[str], *, in_development: bool) -> Policy:
    """Read the operator's list; an entry that means nothing raises ValueError with a sentence."""
    return Policy(tuple(_parse_permission(entry) for entry in entries), in_development)


def _parse_permission(entry: str) -> Permission:
    text = entry.strip().lower()
    by_http = text.startswith("http://")
    text = text.removeprefix("http://").removeprefix("https://").rstrip("/")
    try:
        return Permission(network=ipaddress.ip_network(text.strip("[]")), by_http=by_http)
    except ValueError:
        pass
    name = text.removeprefix("*.")
    if not _NAME.fullmatch(name) or _is_numeric(name):
        raise ValueError(
            f"{entry!r} is not a host name, a name with *. before it, an address or a network (without host "
            "bits), with or without http:// before it."
        )
    return Permission(name=name, below=name != text, by_http=by_http)


def check_target(url: str, policy: Policy) -> Target | Rejected:
    """Judge the URL of a webhook by its text."""
    parts = _URL.fullmatch(url) if len(url) <= MAX_URL_CHARS else None
    if parts is None:
        return Rejected(
            f"A webhook's URL is https://host/path, of at most {MAX_URL_CHARS} characters, in ASCII and "
            "without credentials and fragment."
        )
    scheme, host = parts["scheme"].lower(), parts["host"].lower()
    port = int(parts["port"]) if parts["port"] else _DEFAULT_PORTS[scheme]
    if not 1 <= port <= 65535:
        return Rejected("A port is 1 to 65535.")
    address = _literal(host)
    if address is None and (not _NAME.fullmatch(host) or _is_numeric(host)):
        return Rejected("The host is neither a name nor an address in its usual notation.")
    target = Target(
        is_secure=scheme == "https",
        host=host if address is None else str(address),
        port=port,
        request_target=(parts["path"] or "/") + (parts["query"] or ""),
        address=address,
    )
    return _judge(target, policy) or target


def _judge(target: Target, policy: Policy) -> Rejected | None:
    if _is_development(target, policy):
        return None
    allowed = [entry for entry in policy.permissions if _covers(entry, target)]
    if not target.is_secure and not any(entry.by_http for entry in allowed):
        return Rejected(
            "A webhook's URL begins with https://, unless the server's webhook_allow says otherwise."
        )
    if allowed:
        return None
    if target.address is not None:
        if is_allowed_address(target.address, policy):
            return None
        return Rejected(
            "Addresses that are not public are refused, unless the server's webhook_allow has them."
        )
    if "." not in target.host or target.host.endswith(_LOCAL_SUFFIXES):
        return Rejected("Names of a local network are refused, unless the server's webhook_allow has them.")
    return None


def _covers(entry: Permission, target: Target) -> bool:
    if target.address is not None:
        return entry.covers_address(target.address)
    return entry.covers_name(target.host)


def _is_development(target: Target, policy: Policy) -> bool:
    if not policy.in_development or target.is_secure:
        return False
    if target.address is None:
        return target.host == "localhost"
    return target.address.version == 4 and any(target.address in network for network in _DEVELOPMENT)


def may_dial(target: Target, address: Address, policy: Policy) -> bool:
    """Tell whether a connection to this address is one to this target, as far as it is allowed."""
    if target.address is not None:
        return address == target.address
    if _is_development(target, policy):
        return any(address in network for network in _DEVELOPMENT if network.version == address.version)
    return any(entry.covers_name(target.host) for entry in policy.permissions) or is_allowed_address(
        address, policy
    )


def is_allowed_address(address: Address, policy: Policy) -> bool:
    """Tell whether an address is public, or in a network that the operator allows."""
    return any(entry.covers_address(address) for entry in policy.permissions) or _is_public(address)


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _REFUSED_IPV4)
    if address.scope_id is not None:  # `fe80::1%eth0`: an address of one link
        return False
    if address in _NAT64:
        return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address in _GLOBAL_IPV6 and not any(address in network for network in _REFUSED_IPV6)


def _literal(host: str) -> Address | None:
    """Read an address in its usual notation: four decimal numbers, or IPv6 in brackets."""
    try:
        if host.startswith("["):
            return ipaddress.IPv6Address(host[1:-1])
        return ipaddress.IPv4Address(host)
    except ValueError:
        return None


def _is_numeric(host: str) -> bool:
    """Tell whether a host is one that resolvers read as a number."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None
