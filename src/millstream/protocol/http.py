"""HTTP responses as values: `replies` and `problems` make them, any server can send them."""

from collections.abc import Iterator
from typing import Protocol

import msgspec

Header = tuple[bytes, bytes]
"""A header's name, in lower case, and its value."""


class Body(Protocol):
    """A body that is too large for memory: its length, and its bytes in pieces."""

    def __len__(self) -> int: ...

    def pieces(self) -> Iterator[bytes]:
        """Give the body, piece by piece."""
        ...


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A response: status, headers and body."""

    status: int
    headers: list[Header]
    body: bytes | Body = b""
    lines: bytes = b""
    """The headers as HTTP/1.1 writes them, in a reply that is sent often; else empty."""
