"""Stream names: which URL paths are streams, and which belong to the control APIs.

A stream's name is its percent-decoded path. Two spellings with the same decoded path are one stream;
names that differ in case or Unicode normal form are different streams.

Rules P1 to P3.
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from millstream.protocol.errors import MalformedError, OutsideMountError

RESERVED: Final = "__ds"
"""The first path segment of the control APIs; never the first segment of a stream's name."""

MAX_NAME_BYTES: Final = 1024

STREAM_ROOTS: Final = ("/", "/v1/stream/")
"""Paths below which the control APIs answer (rule P2)."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_HEX = frozenset(b"0123456789abcdefABCDEF")


def parse_name(raw_path: bytes) -> str:
    """Decode the path of a URL into a name, which begins with a slash (rule P3)."""
    return check_name(_percent_decode(raw_path))


def check_name(decoded: bytes) -> str:
    """Check that a path that is decoded already can be a stream's (rule P3)."""
    try:
        name = decoded.decode()
    except UnicodeDecodeError:
        raise MalformedError("INVALID_NAME", "A stream's path must be UTF-8.") from None
    if not name.startswith("/"):
        raise MalformedError("INVALID_NAME", "A stream's path begins with a slash.")
    if len(decoded) > MAX_NAME_BYTES:
        raise MalformedError("NAME_TOO_LONG", f"A stream's path is at most {MAX_NAME_BYTES} bytes long.")
    # Most names are plain: then two questions answer what a look at every character and segment would.
    if not (name.isascii() and name.isprintable()) and _CONTROL.search(name):
        raise MalformedError("INVALID_NAME", "A stream's path must not contain control characters.")
    if "/." in name and not {".", ".."}.isdisjoint(name.split("/")):
        raise MalformedError("INVALID_NAME", "A stream's path must not contain the segments . and ..")
    return name


def check_length(name: str, max_bytes: int) -> None:
    """Refuse a new stream whose name is longer than this server allows (rule P3)."""
    if len(name) > max_bytes or len(name.encode()) > max_bytes:
        raise MalformedError("NAME_TOO_LONG", f"A path is at most {max_bytes} bytes long here.")


def below_mount(name: str, mount: str) -> str:
    """Cut the mount prefix off a path; streams live only below it (rule P1)."""
    if not mount:
        return name
    if name.startswith(mount + "/"):
        return name[len(mount) :]
    raise OutsideMountError("NOT_FOUND", f"Streams live below {mount}/.")


def is_reserved(name: str, roots: tuple[str, ...]) -> bool:
    """Tell whether a path belongs to the control APIs below any of the roots (rule P2)."""
    return RESERVED in name and any(control_path(name, root) is not None for root in roots)


def control_path(name: str, root: str) -> str | None:
    """Give the control path in a name: `/v1/stream//__ds/streams` below `/v1/stream/` is `streams`."""
    if not name.startswith(root):
        return None
    first, _, rest = name[len(root) :].lstrip("/").partition("/")
    return rest if first == RESERVED else None


def _percent_decode(raw: bytes) -> bytes:
    if b"%" not in raw:
        return raw
    pieces = raw.split(b"%")
    if any(len(piece) < 2 or not _HEX.issuperset(piece[:2]) for piece in pieces[1:]):
        raise MalformedError("INVALID_NAME", "A percent sign in a path is followed by two hex digits.")
    return unquote_to_bytes(raw)
