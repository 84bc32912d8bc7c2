"""Query strings: parameters by name, decoded.

A parameter that is given twice is refused when it is asked for, rather than one of the two chosen (rule
O3). Unknown parameters are ignored (rule G7).
"""

from collections.abc import Callable, Iterator
from urllib.parse import unquote_to_bytes

from millstream.protocol.errors import MalformedError

_PERCENT, _PLUS = b"%+"


class Query:
    """The parameters of a URL."""

    __slots__ = ("_repeated", "_values", "one")

    one: Callable[[bytes], bytes | None]
    """Gives a parameter's value, None when it is absent; a repeated one is refused (rule O3)."""

    def __init__(self, raw: bytes) -> None:
        self._values: dict[bytes, bytes] = {}
        self._repeated: set[bytes] | None = None  # most queries need no set
        self.one = self._values.get  # a read asks for seven: as long as none is repeated, this is enough
        if not raw:
            return
        values, escaped = self._values, _PERCENT in raw or _PLUS in raw
        for part in raw.split(b"&"):
            name, _, value = part.partition(b"=")
            if escaped:
                name, value = _unescape(name), _unescape(value)
            if name in values:
                self._repeated = {name, *(self._repeated or ())}
                self.one = self._one_checked
            values[name] = value

    def __len__(self) -> int:
        return len(self._values)

    def _one_checked(self, name: bytes) -> bytes | None:
        if self._repeated is not None and name in self._repeated:
            raise MalformedError("REPEATED_PARAMETER", f"The parameter {name.decode()} may be given once.")
        return self._values.get(name)

    def names(self, prefix: bytes) -> list[bytes]:
        """Give the names of parameters that begin with a prefix."""
        return [name for name in self._values if name.startswith(prefix)]

    def has(self, name: bytes) -> bool:
        """Tell whether a parameter was given."""
        return name in self._values


def each_parameter(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give all parameters in order, for requests that may repeat them."""
    for part in raw.split(b"&"):
        name, _, value = part.partition(b"=")
        yield _unescape(name), _unescape(value)


def _unescape(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))
