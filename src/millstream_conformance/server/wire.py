"""HTTP messages as values: exactly what was sent and received.

Client libraries merge headers, decode bodies, follow redirects and add defaults. A conformance suite
must see what is on the wire.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

HeaderInput: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]


class Headers:
    """Header fields in the order they came; names compare without case, repeats are kept."""

    def __init__(self, pairs: HeaderInput = ()) -> None:
        self.pairs: tuple[tuple[str, str], ...] = tuple(
            pairs.items() if isinstance(pairs, Mapping) else pairs
        )

    def get(self, name: str) -> str | None:
        """The first value of a field, or None."""
        return next((value for key, value in self.pairs if key.lower() == name.lower()), None)

    def all(self, name: str) -> list[str]:
        """Every value of a field, for the ones that must not repeat."""
        return [value for key, value in self.pairs if key.lower() == name.lower()]

    def tokens(self, name: str) -> set[str]:
        """A comma-separated field as a set of lower-case tokens."""
        joined = ",".join(self.all(name))
        return {token.strip().lower() for token in joined.split(",") if token.strip()}

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __repr__(self) -> str:
        return repr(list(self.pairs))


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `chunked` sends the body with Transfer-Encoding instead of Content-Length."""

    method: str
    target: str
    headers: Headers
    body: bytes = b""
    chunked: bool = False

    def encode(self, host: str) -> bytes:
        """The bytes to send. Host and framing are added unless the test set them itself."""
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        if "Host" not in self.headers:
            lines.append(f"Host: {host}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        framed = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        if self.chunked:
            lines.append("Transfer-Encoding: chunked")
        elif not framed and (self.body or self.method in {"PUT", "POST", "PATCH"}):
            lines.append(f"Content-Length: {len(self.body)}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        return head + (_chunks(self.body) if self.chunked else self.body)


def _chunks(body: bytes) -> bytes:
    """A chunked body of several small chunks, so that a server must join them."""
    size = max(1, len(body) // 3)
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """One response. `body` is unframed (no chunk sizes) but never decompressed."""

    request: Request
    status: int
    reason: str
    headers: Headers
    body: bytes
    elapsed_s: float

    @property
    def next_offset(self) -> str:
        """`Stream-Next-Offset`; its absence is a failure wherever a test asks for it."""
        value = self.headers.get("Stream-Next-Offset")
        assert value is not None, f"{self!r} carries no Stream-Next-Offset"
        return value

    @property
    def up_to_date(self) -> bool:
        """Whether the answer says up to date."""
        return self.headers.get("Stream-Up-To-Date") == "true"

    @property
    def closed(self) -> bool:
        """Whether the answer says closed."""
        return self.headers.get("Stream-Closed") == "true"

    @property
    def cursor(self) -> str | None:
        """`Stream-Cursor`, or None."""
        return self.headers.get("Stream-Cursor")

    @property
    def etag(self) -> str | None:
        """`ETag`, or None."""
        return self.headers.get("ETag")

    @property
    def content_type(self) -> str | None:
        """`Content-Type` exactly as sent, or None."""
        return self.headers.get("Content-Type")

    @property
    def cache_control(self) -> set[str]:
        """The directives of `Cache-Control`."""
        return self.headers.tokens("Cache-Control")

    def json(self) -> Any:
        """The body as JSON; a body that is not JSON is a failure."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise AssertionError(f"{self!r} has a body that is not JSON: {self.body[:200]!r}") from error

    def __repr__(self) -> str:
        return f"<{self.request.method} {self.request.target} -> {self.status} {self.reason}>"
