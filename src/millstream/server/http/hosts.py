"""The syntax of `Host`: a name or an address, and a port (RFC 9110, 7.2; RFC 3986, 3.2.2).

Locations are made of it, and proxies route by it, so nothing else may be in it. The hosts that were valid
lately are remembered: nearly every request names one of them.
"""

import re
from typing import Final

_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*+)(?::[0-9]*+)?")
_MAX_RECENT: Final = 256

recent_hosts: set[bytes | None] = set()
"""Valid hosts, for callers that look here first: a lookup is cheaper than a call."""


def is_host(value: bytes | None) -> bool:
    """Tell whether a request has a valid host."""
    if value in recent_hosts:
        return True
    if value is None or _HOST.fullmatch(value) is None:
        return False
    if len(recent_hosts) >= _MAX_RECENT:
        recent_hosts.clear()
    recent_hosts.add(value)
    return True
