"""The syntax of `Host`: a name or an address, and a port (RFC 9110, 7.2; RFC 3986, 3.2.2).

Locations are made of it, and proxies route by it, so nothing else may be in it. The hosts that were valid
lately are remembered: nearly every request names one of them.
"""

import re
from typing import Final

_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*+)(?::[0-9]*+)?")
_MAX_KNOWN: Final = 256

_known: set[bytes] = set()


def is_host(value: bytes | None) -> bool:
    """Tell whether a request has a valid host."""
    if value in _known:
        return True
    if value is None or _HOST.fullmatch(value) is None:
        return False
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    _known.add(value)
    return True
