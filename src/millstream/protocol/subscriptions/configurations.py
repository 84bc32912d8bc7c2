"""What a subscription is asked to be: its configuration, the normal form of it, and its hash.

Two requests that mean the same have the same normal form: paths without slashes before them, streams sorted
and each once, nothing that the type has no use for. The hash of that form decides whether a PUT confirms what
is there (200) or is in its way (409).

Paths are relative to the stream root that the request was made below. In the code they are absolute, the root
in front; `relative` takes it off again for an answer.

PROTOCOL.md 6.2; rules S1, S4.
"""

import hashlib
from typing import Any, Final

import msgspec

from millstream.protocol.errors import MalformedError
from millstream.protocol.globs import MAX_GLOB_BYTES
from millstream.protocol.names import RESERVED, check_name

WEBHOOK: Final = "webhook"
PULL_WAKE: Final = "pull-wake"

MIN_LEASE_MS: Final = 1_000
MAX_LEASE_MS: Final = 600_000
USUAL_LEASE_MS: Final = 30_000

MAX_ID_LENGTH: Final = 200
MAX_STREAMS: Final = 1_000
"""Most explicit streams in one request."""
MAX_URL_BYTES: Final = 2_048
MAX_DESCRIPTION_BYTES: Final = 1_024

_encode = msgspec.msgpack.Encoder().encode


class Configuration(msgspec.Struct, frozen=True, array_like=True):
    """A configuration in its normal form; paths are absolute."""

    type: str
    pattern: str | None
    streams: tuple[str, ...]
    webhook_url: str | None
    wake_stream: str | None
    lease_ttl_ms: int = USUAL_LEASE_MS
    description: str | None = None

    @property
    def hash(self) -> bytes:
        """What two requests for the same configuration have in common."""
        return hashlib.sha256(_encode(self)).digest()


def parse_configuration(body: bytes, root: str) -> Configuration:
    """Read the body of a PUT."""
    asked = parse_object(body)
    type = asked.get("type")
    if type not in (WEBHOOK, PULL_WAKE):
        raise invalid('type must be "webhook" or "pull-wake".')
    pattern = asked.get("pattern")
    streams = asked.get("streams")
    if pattern is None and not streams:
        raise invalid("A subscription needs a pattern, or streams.")
    wake_stream = _wake_stream(asked, root) if type == PULL_WAKE else None
    members = parse_paths(streams, root) if streams is not None else ()
    if wake_stream in members:
        raise invalid("A subscription cannot follow its own wake stream.")
    return Configuration(
        type,
        _pattern(pattern, root) if pattern is not None else None,
        members,
        _webhook_url(asked) if type == WEBHOOK else None,
        wake_stream,
        _lease(asked.get("lease_ttl_ms", USUAL_LEASE_MS)),
        _description(asked.get("description")),
    )


def parse_object(body: bytes) -> dict[str, Any]:
    """Read a body that must be a JSON object."""
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise invalid("The body must be JSON.") from None
    if not isinstance(asked, dict):
        raise invalid("The body must be a JSON object.")
    return asked


def parse_paths(streams: object, root: str) -> tuple[str, ...]:
    """Read a list of streams, as absolute names, sorted and each once."""
    if not isinstance(streams, list) or not streams:
        raise invalid("streams must be a list of paths, with at least one.")
    if len(streams) > MAX_STREAMS:
        raise invalid(f"streams must have at most {MAX_STREAMS} paths; add more by further requests.")
    return tuple(sorted({parse_path(path, root) for path in streams}))


def parse_path(path: object, root: str) -> str:
    """Read a path relative to the stream root, as an absolute name."""
    stripped = path.lstrip("/") if isinstance(path, str) else ""
    if not stripped:
        raise invalid("A stream's path must be a string that is not empty.")
    if stripped.partition("/")[0] == RESERVED:
        raise invalid(f"A path whose first segment is {RESERVED} is not a stream.")
    return _checked(root + stripped)


def relative(name: str, root: str) -> str:
    """Give a stream's name as clients below a stream root know it."""
    return name[len(root) :]


def check_id(id: str) -> str:
    """Check the id of a subscription, or the name of a worker."""
    if not 0 < len(id) <= MAX_ID_LENGTH or any(mark < " " or "\x7f" <= mark <= "\x9f" for mark in id):
        raise invalid(f"It must have 1 to {MAX_ID_LENGTH} characters, and no control characters.")
    return id


def invalid(detail: str) -> MalformedError:
    """Say what is wrong with a request."""
    return MalformedError("INVALID_REQUEST", detail)


def _pattern(pattern: object, root: str) -> str:
    stripped = pattern.lstrip("/") if isinstance(pattern, str) else ""
    if not stripped:
        raise invalid("pattern must be a string that is not empty.")
    if len(stripped.encode()) > MAX_GLOB_BYTES:
        raise invalid(f"pattern must have at most {MAX_GLOB_BYTES} bytes.")
    return _checked(root + stripped)


def _wake_stream(asked: dict[str, Any], root: str) -> str:
    if asked.get("wake_stream") is None:
        raise invalid("A pull-wake subscription needs a wake_stream.")
    return parse_path(asked["wake_stream"], root)


def _webhook_url(asked: dict[str, Any]) -> str:
    webhook = asked.get("webhook")
    url = webhook.get("url") if isinstance(webhook, dict) else None
    if not isinstance(url, str) or not url:
        raise invalid("A webhook subscription needs webhook.url.")
    if len(url.encode()) > MAX_URL_BYTES:
        raise invalid(f"webhook.url must have at most {MAX_URL_BYTES} bytes.")
    return url


def _lease(ttl_ms: object) -> int:
    if not isinstance(ttl_ms, int) or isinstance(ttl_ms, bool) or not MIN_LEASE_MS <= ttl_ms <= MAX_LEASE_MS:
        raise invalid(f"lease_ttl_ms must be a whole number from {MIN_LEASE_MS} to {MAX_LEASE_MS}.")
    return ttl_ms


def _description(text: object) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str) or len(text.encode()) > MAX_DESCRIPTION_BYTES:
        raise invalid(f"description must be a string of at most {MAX_DESCRIPTION_BYTES} bytes.")
    return text


def _checked(name: str) -> str:
    try:
        return check_name(name.encode())
    except MalformedError as error:
        raise invalid(error.detail) from None
    except UnicodeEncodeError:
        raise invalid("A path must be valid Unicode.") from None
