"""Query strings: parameters by name, decoded.

A parameter that is given twice is refused when it is asked for, rather than one of the two chosen (rule
O3). Unknown parameters are ignored (rule G7).
"""

from urllib.parse import unquote_to_bytes

from millstream.protocol.errors import MalformedError


class Query:
    """The parameters of a URL."""

    __slots__ = ("_repeated", "_values")

    def __init__(self, raw: bytes) -> None:
        self._values: dict[bytes, bytes] = {}
        self._repeated: set[bytes] | None = None  # a set for every request would cost more
        if raw:
            escaped = b"%" in raw or b"+" in raw
            for part in raw.split(b"&"):
                name, _, value = part.partition(b"=")
                if escaped:
                    name, value = _unescape(name), _unescape(value)
                if name in self._values:
                    if self._repeated is None:
                        self._repeated = set()
                    self._repeated.add(name)
                self._values[name] = value

    def one(self, name: bytes) -> bytes | None:
        """Give a parameter's value, None when it is absent; a repeated one is refused (rule O3)."""
        if self._repeated is not None and name in self._repeated:
            raise MalformedError("REPEATED_PARAMETER", f"The parameter {name.decode()} may be given once.")
        return self._values.get(name)

    def has(self, name: bytes) -> bool:
        """Tell whether a parameter was given."""
        return name in self._values


def _unescape(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))
