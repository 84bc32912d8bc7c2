"""Values of options: parsing the text that Spark passes.

Each function reads one kind of value, or raises `Problem` with what is wrong and what to do.
"""

import datetime
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from millstream.spark.json.time_patterns import PatternError, pattern_parser
from millstream.spark.json.times import zone_of

EARLIEST = "earliest"
LATEST = "latest"

Offsets = str | dict[str, str]
"""`earliest`, `latest`, or an offset for each stream."""

Moments = str | dict[str, str]
"""A time, or one for each stream, as the server takes them."""

_SPELT = {"-1": EARLIEST, "now": LATEST}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_AGO = re.compile(r"-\s*(\d{1,9})\s*(s|m|h|d|seconds?|minutes?|hours?|days?)", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_EPOCH_MS = re.compile(r"\d{1,15}")
_DURATION = re.compile(r"(\d{1,9})\s*(s|m|h|d|seconds?|minutes?|hours?|days?)", re.IGNORECASE)
_SCALE = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class Problem(Exception):
    """What is wrong with a value; the caller adds the option's name."""


def text(value: str) -> str:
    """Read non-empty text."""
    if not value.strip():
        raise Problem("is empty; give a value or leave it out")
    return value


def flag(value: str) -> bool:
    """Read true or false."""
    known = {"true": True, "false": False}
    if value.strip().lower() not in known:
        raise Problem(f"{value!r} is neither true nor false")
    return known[value.strip().lower()]


def count(value: str) -> int:
    """Read an integer of at least 1."""
    if not value.strip().isdecimal() or int(value) < 1:
        raise Problem(f"{value!r} is not a count; give a whole number from 1 on")
    return int(value)


def number(value: str) -> int:
    """Read an integer of at least 0."""
    if not value.strip().isdecimal():
        raise Problem(f"{value!r} is not a whole number; give one from 0 on")
    return int(value)


def size(value: str) -> int:
    """Read a number of bytes."""
    match = _SIZE.fullmatch(value.strip())
    if match is None or int(match[1]) < 1:
        raise Problem(f"{value!r} is not a size; give bytes, such as 1048576, 1024k or 64m")
    return int(match[1]) * _SCALE[match[2].lower()]


def seconds(value: str) -> float:
    """Read a number of seconds."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise Problem(f"{value!r} is not a time; give seconds, such as 30 or 2.5")
    return seconds


def url(value: str) -> str:
    """Read a server's URL."""
    parts = urlsplit(value.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Problem(f"{value!r} is not a URL; give the server's, such as http://127.0.0.1:4437")
    if parts.query or parts.fragment:
        raise Problem(f"{value!r} has a query or a fragment; give the part before it")
    return value.strip().rstrip("/")


def names(value: str) -> tuple[str, ...]:
    """Read stream names."""
    if value.lstrip().startswith("["):
        names = _parse_json(value)
        if not all(isinstance(name, str) for name in names):
            raise Problem(f"{value!r} holds something other than text; give an array of names")
    else:
        names = value.split(",")
    cleaned = tuple(dict.fromkeys(stream_name(name) for name in names))
    if not cleaned or "" in cleaned:
        raise Problem(f"{value!r} has an empty name; give names like chat/1,chat/2, or a JSON array of them")
    return cleaned


def pattern(value: str) -> str:
    """Read a glob, or one name."""
    return stream_name(text(value))


def headers(value: str) -> tuple[tuple[str, str], ...]:
    """Read headers."""
    found = _parse_json(value)
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise Problem('is not an object of text; give JSON such as {"X-Tenant": "blue"}')
    if any("\n" in text or "\r" in text for pair in found.items() for text in pair):
        raise Problem("has a line break in a header; remove it")
    return tuple(found.items())


def offsets(value: str) -> Offsets:
    """Read the offsets to begin or to end at."""
    if value.strip().lower() in (EARLIEST, LATEST):
        return value.strip().lower()
    if not value.lstrip().startswith("{"):
        raise Problem(f'{value!r} is not earliest, latest or JSON such as {{"chat/1": "earliest"}}')
    found = _parse_json(value)
    if not all(isinstance(one, str) and one for one in found.values()):
        raise Problem("holds something other than text; give each stream an offset, earliest or latest")
    return {stream_name(name): _SPELT.get(offset, offset) for name, offset in found.items()}


def moments(value: str) -> Moments:
    """Read a time, or a JSON object with one for each stream."""
    if not value.lstrip().startswith("{"):
        return moment(value)
    found = _parse_json(value)
    return {stream_name(name): moment(str(one)) for name, one in found.items()}


def moment(value: str) -> str:
    """Read a time, and return it as the server takes it: `time:2026-11-18T00:00:00Z` or `time:-600s`."""
    ago = _AGO.fullmatch(value.strip())
    if ago is not None:
        return f"time:-{int(ago[1]) * _SECONDS[ago[2][0].lower()]}s"
    try:
        if _EPOCH_MS.fullmatch(value.strip()):
            at = datetime.datetime.fromtimestamp(int(value) / 1000, datetime.UTC)
        else:
            at = datetime.datetime.fromisoformat(value.strip())
        in_utc = at.astimezone(datetime.UTC) if at.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        in_utc = None
    if in_utc is None:
        raise Problem(
            f"{value!r} is not a time with a zone; give one such as 2026-11-18T09:30:00Z, -10 minutes, or "
            "milliseconds since 1970"
        )
    return f"time:{in_utc.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}"


def duration(value: str) -> float:
    """Read a length of time, in seconds."""
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise Problem(f"{value!r} is not a length of time; give one such as 30s, 15m or '2 hours'")
    return float(int(found[1]) * _SECONDS[found[2][0].lower()])


def zone(value: str) -> str:
    """Read a time zone."""
    if zone_of(value.strip()) is None:
        raise Problem(f"{value!r} is not a time zone; give one such as UTC, +01:00 or Europe/Berlin")
    return value.strip()


def time_pattern(value: str) -> str:
    """Read a pattern for times or dates."""
    try:
        pattern_parser(value)
    except PatternError as error:
        raise Problem(str(error)) from None
    return value


def choice(*choices: str) -> Callable[[str], str]:
    """Make a parser that accepts one of a few words."""

    def parse(value: str) -> str:
        if value.strip().lower() not in choices:
            raise Problem(f"{value!r} is not one of {', '.join(choices)}")
        return value.strip().lower()

    return parse


def _parse_json(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise Problem(f"is not JSON ({error}); check its quotes and brackets") from None


def stream_name(name: str) -> str:
    """Return a stream's name as in the column `stream`: its path below `url`."""
    return name.strip().lstrip("/")
