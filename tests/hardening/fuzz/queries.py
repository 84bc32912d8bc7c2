"""Queries, offsets and paths: understood, or refused with a `RequestError`, and nothing else.

An input is what follows the question mark of a URL; it is tried as an offset and as a path, too.
"""

import re
from collections.abc import Callable, Hashable
from random import Random

from hardening.fuzz.fuzzing import Target, stateless
from millstream.protocol import parts
from millstream.protocol.errors import RequestError
from millstream.protocol.names import parse_name
from millstream.protocol.offsets import format_offset, parse_offset
from millstream.protocol.queries import Query
from millstream.protocol.requests import MAX_PAGE, parse_listing, parse_read

NAMES = (b"offset", b"live", b"cursor", b"until", b"limit", b"prefix", b"glob", b"part", b"parts")
VALUES = (
    b"",
    b"0000000000000000_0000000000000042",
    b"9999999999999999_9999999999999999",
    *b"-1 now 1 sse long-poll false no 100 1000 1001 %2Fa /a/** %ff %C3%A4 commit part-1".split(),
)
TOKENS = (
    *b"& = % + %00 %zz %26 %3d _ \xb2 \xff .. / ~ ;".split(),
    *(name + b"=" for name in NAMES),
    *VALUES,
)


def check(raw: bytes) -> Hashable:
    """Check every parser of a query."""
    query = Query(raw)
    _check_values(query, raw)
    outcomes = [_outcome(parse, query, raw) for parse in _PARSERS]
    return outcomes[0], outcomes[1] == "ok", outcomes[2:].count("ok") > 1


def _check_values(query: Query, raw: bytes) -> None:
    given = [tuple(map(_unescaped, part.partition(b"=")[::2])) for part in raw.split(b"&")] if raw else []
    for name in NAMES:
        values = [value for found, value in given if found == name]
        assert query.has(name) == bool(values)
        if len(values) < 2:
            assert query.one(name) == (values[0] if values else None)
        else:
            assert (
                _outcome(lambda query, _raw, name=name: query.one(name), query, raw) == "REPEATED_PARAMETER"
            )


def _unescaped(text: bytes) -> bytes:
    return re.sub(rb"%([0-9a-fA-F]{2})", lambda found: bytes([int(found[1], 16)]), text.replace(b"+", b" "))


def _outcome(parse: Callable[[Query, bytes], object], query: Query, raw: bytes) -> Hashable:
    try:
        parse(query, raw)
    except RequestError as error:
        return error.code
    return "ok"


def _read(query: Query, _raw: bytes) -> None:
    read = parse_read(query)
    assert read.offset >= -2
    assert read.until is None or read.until >= 0
    assert read.limit is None or read.limit > 0
    assert read.cursor is None or read.cursor >= 0


def _list(query: Query, _raw: bytes) -> None:
    listing = parse_listing(query)
    assert 1 <= listing.limit <= MAX_PAGE


def _parts(query: Query, _raw: bytes) -> None:
    parts.parse_post(query, {b"content-type": b"application/json"}, b"[]")


def _offset(_query: Query, raw: bytes) -> None:
    position = parse_offset(raw)
    assert position < 0 or format_offset(position) == raw


def _name(_query: Query, raw: bytes) -> None:
    name = parse_name(b"/" + raw)
    assert name.startswith("/")
    assert not any(character < " " or "\x7f" <= character < "\xa0" for character in name)
    assert not {".", ".."} & set(name.split("/"))


_PARSERS = (_read, _list, _parts, _offset, _name)


def generate(dice: Random) -> bytes:
    """Write some parameters."""
    given = (dice.choice(NAMES) + b"=" + dice.choice(VALUES) for _ in range(dice.randint(0, 4)))
    return b"&".join(given)


TARGET = Target("queries", stateless(check), generate, TOKENS)
