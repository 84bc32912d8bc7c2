"""Query strings: parameters by name, decoded once, with repetition visible.

Rule O3: a repeated `offset` is refused, not resolved by chance. Unknown parameters are ignored (G7).
"""

from urllib.parse import unquote_to_bytes

from millstream.protocol.errors import MalformedError


class Query:
    """The parameters of a URL."""

    __slots__ = ("_pairs",)

    def __init__(self, raw: bytes) -> None:
        self._pairs = [_pair(part) for part in raw.split(b"&") if part] if raw else []

    def one(self, name: bytes) -> bytes | None:
        """Give a parameter's value, None when it is absent; repeated ones are refused."""
        values = [value for key, value in self._pairs if key == name]
        if len(values) > 1:
            raise MalformedError("REPEATED_PARAMETER", f"The parameter {name.decode()} may be given once.")
        return values[0] if values else None

    def has(self, name: bytes) -> bool:
        """Tell whether a parameter was given."""
        return any(key == name for key, _ in self._pairs)


def _pair(part: bytes) -> tuple[bytes, bytes]:
    name, _, value = part.partition(b"=")
    if b"%" in part or b"+" in part:
        return unquote_to_bytes(name.replace(b"+", b" ")), unquote_to_bytes(value.replace(b"+", b" "))
    return name, value
