"""Rows: what an engine keeps of subscriptions, as keys and bytes that it need not understand.

        s <root><id>                   the state of a subscription
        l <root><id> NUL <stream>      one of its cursors
        k                              the keys of the store

Each change of a subscription is a few of these rows, which the engine makes durable together and in order
with all other changes (`engine.Journal.keep`).
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from millstream.protocol.subscriptions.keys import Keys
from millstream.protocol.subscriptions.states import Link, Subscription

Rows = dict[str, bytes | None]
"""Rows by key; without a value they are removed."""

KEYS = "k"
_STATE, _LINK, _END = "s", "l", "\0"

encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(Subscription).decode
_decode_link = msgspec.msgpack.Decoder(Link).decode
_decode_keys = msgspec.msgpack.Decoder(Keys).decode


class Recovered(msgspec.Struct):
    """What rows hold."""

    subscriptions: dict[str, Subscription] = {}
    links: dict[str, dict[str, Link]] = {}
    keys: Keys | None = None


def state_key(key: str) -> str:
    """Name the row of a subscription's state."""
    return _STATE + key


def link_key(key: str, name: str) -> str:
    """Name the row of a cursor."""
    return f"{_LINK}{key}{_END}{name}"


def decode(rows: Mapping[str, bytes]) -> Recovered:
    """Read rows."""
    found = Recovered()
    for row, value in rows.items():
        if row == KEYS:
            found.keys = _decode_keys(value)
        elif row.startswith(_STATE):
            found.subscriptions[row[1:]] = _decode_state(value)
        else:
            key, _, name = row[1:].partition(_END)
            found.links.setdefault(key, {})[name] = _decode_link(value)
    return found


def complaints(rows: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    """Check rows, and say which cannot be read."""
    for row, value in rows:
        try:
            decode({row: value})
        except msgspec.MsgspecError:
            yield f"catalog.db: the row {row!r} of a subscription is damaged."
