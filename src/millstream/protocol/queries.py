"""Query strings: parameters by name, decoded once, with repetition visible.

Rule O3: a repeated `offset` is refused, not resolved by chance. Unknown parameters are ignored (G7).
"""

from urllib.parse import unquote_to_bytes

from millstream.protocol.errors import MalformedError


class Query:
    """The parameters of a URL."""

    __slots__ = ("_repeated", "_values")

    def __init__(self, raw: bytes) -> None:
        self._values: dict[bytes, bytes] = {}
        self._repeated: set[bytes] | None = None  # a set of its own for each request would cost all of them
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
        """Give a parameter's value, None when it is absent; repeated ones are refused."""
        if self._repeated is not None and name in self._repeated:
            raise MalformedError("REPEATED_PARAMETER", f"The parameter {name.decode()} may be given once.")
        return self._values.get(name)

    def has(self, name: bytes) -> bool:
        """Tell whether a parameter was given."""
        return name in self._values


def _unescape(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))
