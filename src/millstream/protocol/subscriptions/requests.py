"""Requests about subscriptions, parsed: which path asks for what, and the bodies.

PROTOCOL.md 6, 7; rules S1, S4.
"""

from typing import Final

import msgspec

from millstream.protocol.errors import MalformedError
from millstream.protocol.offsets import parse_offset
from millstream.protocol.queries import Query
from millstream.protocol.requests import MAX_PAGE, USUAL_PAGE
from millstream.protocol.subscriptions.configurations import (
    check_id,
    invalid,
    parse_object,
    parse_path,
    parse_paths,
)

MAX_BODY_BYTES: Final = 2**20
"""Longest body of a request about subscriptions."""

MAX_ACKS: Final = 10_000

FOLDER: Final = "subscriptions"
ACTIONS: Final = frozenset({"streams", "claim", "ack", "release", "callback", "retry"})
SETTLING: Final = frozenset({"ack", "release", "callback"})
"""What carries the token of a claim instead of one of the server."""


class Target(msgspec.Struct, frozen=True):
    """What a path below `__ds/subscriptions/` names: a subscription, what to do with it, and a stream."""

    id: str
    action: str = ""
    path: str = ""


class Ack(msgspec.Struct, frozen=True, gc=False):
    """How far a stream is processed."""

    stream: str
    offset: int


class SettleRequest(msgspec.Struct, frozen=True):
    """A callback, an ack or a release: which wake it is of, and what is processed."""

    wake_id: str
    generation: int
    acks: tuple[Ack, ...] = ()
    is_done: bool = False


class ListRequest(msgspec.Struct, frozen=True):
    """A page of all subscriptions."""

    after: str
    limit: int


def parse_target(path: str) -> Target | None:
    """Find what a control path asks for; None when that is nothing about one subscription."""
    folder, _, rest = path.partition("/")
    id, _, rest = rest.partition("/")
    if folder != FOLDER or not id:
        return None
    action, _, below = rest.partition("/")
    if below and action != "streams":
        return None
    return Target(id, action, below) if not action or action in ACTIONS else None


def parse_claim(body: bytes) -> str:
    """Read who wants to have the lease."""
    worker = parse_object(body).get("worker")
    if not isinstance(worker, str):
        raise invalid("worker must be a string.")
    return check_id(worker)


def parse_members(body: bytes, root: str) -> tuple[str, ...]:
    """Read the streams that are to be added, as absolute names."""
    return parse_paths(parse_object(body).get("streams"), root)


def parse_settling(body: bytes, root: str) -> SettleRequest:
    """Read a callback, an ack or a release."""
    asked = parse_object(body)
    wake_id, generation, done = asked.get("wake_id"), asked.get("generation"), asked.get("done", False)
    if not isinstance(wake_id, str) or not isinstance(generation, int) or isinstance(generation, bool):
        raise invalid("wake_id must be a string, and generation a whole number.")
    if not isinstance(done, bool):
        raise invalid("done must be true or false.")
    acks = asked.get("acks")
    return SettleRequest(wake_id, generation, _acks(acks, root) if acks is not None else (), done)


def parse_listing(query: Query) -> ListRequest:
    """Read the parameters of a listing of subscriptions."""
    limit = query.one(b"limit")
    if limit is not None and not (limit.isdigit() and len(limit) <= 4 and 0 < int(limit) <= MAX_PAGE):
        raise invalid(f"limit must be from 1 to {MAX_PAGE}.")
    return ListRequest((query.one(b"cursor") or b"").decode("utf-8", "replace"), int(limit or USUAL_PAGE))


def _acks(acks: object, root: str) -> tuple[Ack, ...]:
    if not isinstance(acks, list) or len(acks) > MAX_ACKS:
        raise invalid(f"acks must be a list, of at most {MAX_ACKS} entries.")
    return tuple(_ack(ack, root) for ack in acks)


def _ack(ack: object, root: str) -> Ack:
    if not isinstance(ack, dict):
        raise invalid("An ack must be an object with stream and offset.")
    stream, offset = ack.get("stream", ack.get("path")), ack.get("offset")
    try:
        position = parse_offset(offset.encode()) if isinstance(offset, str) else -1
    except (MalformedError, UnicodeEncodeError):
        position = -1
    if position < 0:
        raise MalformedError("INVALID_OFFSET", "An ack needs an offset that this server gave.")
    return Ack(parse_path(stream, root), position)
