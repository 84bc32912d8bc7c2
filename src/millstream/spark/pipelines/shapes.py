"""Shapes: the fields and types of a stream's messages, and how they change. Pure.

A shape maps each field of a message to the types it had: `{"user.id": ["integer"], "note":
["null", "string"]}`. Fields inside objects have dots in their names, elements of arrays have `[]`.
A message that is not an object has one field, with an empty name; content that is not JSON has none.
Shapes are bounded: fields of a message after the first 200 are ignored.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

MAX_FIELDS = 200
_MAX_DEPTH = 5

Shape = dict[str, list[str]]


class Drift(msgspec.Struct, frozen=True):
    """The difference between two shapes."""

    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def shape_of(message: bytes) -> Shape:
    """Describe one message."""
    try:
        value = msgspec.json.decode(message)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}
    found: dict[str, set[str]] = {}
    _describe(value, "", 0, found)
    return {name: sorted(types) for name, types in sorted(found.items())}


def merged(shapes: Iterable[Mapping[str, Iterable[str]]]) -> Shape:
    """Describe many messages together."""
    found: dict[str, set[str]] = {}
    for shape in shapes:
        for name, types in shape.items():
            if name in found or len(found) < MAX_FIELDS:
                found.setdefault(name, set()).update(types)
    return {name: sorted(types) for name, types in sorted(found.items())}


def drift(before: Mapping[str, Iterable[str]], now: Mapping[str, Iterable[str]]) -> Drift:
    """Compare two shapes; whether a field is nullable does not count as a change."""
    return Drift(
        added=sorted(set(now) - set(before)),
        removed=sorted(set(before) - set(now)),
        changed=sorted(name for name in set(before) & set(now) if _differ(before[name], now[name])),
    )


def _differ(before: Iterable[str], now: Iterable[str]) -> bool:
    old, new = set(before) - {"null"}, set(now) - {"null"}
    return bool(old and new and old != new)


def _describe(value: Any, name: str, depth: int, found: dict[str, set[str]]) -> None:
    if name not in found and len(found) >= MAX_FIELDS:
        return
    if isinstance(value, dict) and (name == "" or depth <= _MAX_DEPTH):
        if name:
            found.setdefault(name, set()).add("object")
        for key, inner in value.items():
            _describe(inner, f"{name}.{key}" if name else key, depth + 1, found)
        return
    found.setdefault(name, set()).add(_type(value))
    if isinstance(value, list) and depth <= _MAX_DEPTH:
        for inner in value[:MAX_FIELDS]:
            _describe(inner, f"{name}[]", depth + 1, found)


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
