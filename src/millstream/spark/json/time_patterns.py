"""Patterns of times and dates, as Spark has them from Java: `dd/MM/yyyy HH:mm:ss.SSSXXX`.

Each letter repeated is a field, and the number of letters is its width: `d` takes one digit or more, `dd`
exactly two; a fraction of a second may have fewer. Text in single quotes stands for itself, and what is in
brackets may be missing. A pattern is turned into a regular expression and, for each of its groups, the field
that it gives. Letters that are not here are refused, rather than read in another way than Spark does.
"""

import functools
import re

from millstream.spark.json.times import DAY_US, SECOND_US, Zone, at_zone, days_from, zone_of

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_NUMBERS = {"M": "month", "L": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "h": "half"}
_OFFSETS = {
    "X": r"[+-]\d\d",
    "XX": r"[+-]\d{4}",
    "XXX": r"[+-]\d\d:\d\d",
    "Z": r"[+-]\d{4}",
    "ZZ": r"[+-]\d{4}",
    "ZZZ": r"[+-]\d{4}",
}
_PIVOT = 2000
_MOST_LETTERS = 2


class PatternError(ValueError):
    """A pattern has something that is not known here."""


class PatternParser:
    """Reads the text that a pattern describes."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._fields: list[str] = []
        self._expression = re.compile(self._regex(), re.IGNORECASE | re.ASCII)
        if not self._fields:
            raise PatternError(f"{pattern!r} has no field of a time; give one such as yyyy-MM-dd HH:mm:ss")

    def micros(self, text: str, zone: Zone) -> int | None:
        """Return the microseconds since 1970 of a time; None if the text is not one."""
        parts = self._parts(text)
        days = None if parts is None else _days(parts)
        if parts is None or days is None:
            return None
        hour = int(parts.get("hour", 0))
        if "half" in parts:
            half = int(parts["half"])
            if not 1 <= half <= 12:
                return None
            hour = half % 12 + (12 if parts.get("ampm", "am").lower() == "pm" else 0)
        minute, second = int(parts.get("minute", 0)), int(parts.get("second", 0))
        if hour > 23 or minute > 59 or second > 59:
            return None
        micro = int(parts.get("fraction", "0")[:6].ljust(6, "0"))
        if "zone" in parts:
            named = zone_of(parts["zone"].upper() if parts["zone"] in ("z", "Z") else parts["zone"])
            if named is None:
                return None
            zone = named
        return at_zone(days * DAY_US + (hour * 3600 + minute * 60 + second) * SECOND_US + micro, zone)

    def days(self, text: str) -> int | None:
        """Return the days since 1970 of a date; None if the text is not one."""
        parts = self._parts(text)
        return None if parts is None else _days(parts)

    def _parts(self, text: str) -> dict[str, str] | None:
        found = self._expression.fullmatch(text)
        if found is None:
            return None
        parts: dict[str, str] = {}
        for field, part in zip(self._fields, found.groups(), strict=True):
            if part is not None and parts.setdefault(field, part) != part:
                return None  # one field twice, with two values
        return parts

    def _regex(self) -> str:
        written: list[str] = []
        depth = 0
        for token in _TOKEN.finditer(self._pattern):
            text = token[0]
            if text == "[":
                depth += 1
                written.append("(?:")
            elif text == "]":
                depth -= 1
                written.append(")?")
            elif token[1] is not None:
                written.append(self._field(text))
            elif text in ("{", "}", "#", "'"):
                raise PatternError(f"{self._pattern!r} has {text!r}, which has a meaning; put text in quotes")
            else:
                plain = "'" if text == "''" else text[1:-1].replace("''", "'") if text[0] == "'" else text
                written.append(re.escape(plain))
            if depth < 0:
                break
        if depth:
            raise PatternError(f"{self._pattern!r} has a bracket that is not closed, or not opened")
        return "".join(written)

    def _field(self, letters: str) -> str:
        letter, count = letters[0], len(letters)
        if letter in "yu":
            self._fields.append("short year" if count == 2 else "year")
            return r"(\d\d)" if count == 2 else rf"(-?\d{{{count}}})"
        if letter in "ML" and count in (3, 4):
            self._fields.append("month name")
            return f"({'|'.join(_MONTHS if count == 3 else _FULL_MONTHS)})"
        if letter in _NUMBERS and count <= _MOST_LETTERS:
            self._fields.append(_NUMBERS[letter])
            return r"(\d\d)" if count == 2 else r"(\d{1,19})"
        if letter == "S" and count <= 9:
            self._fields.append("fraction")
            return rf"(\d{{1,{count}}})"
        if letters == "a":
            self._fields.append("ampm")
            return "(am|pm)"
        if letters in _OFFSETS:
            self._fields.append("zone")
            return rf"(Z|{_OFFSETS[letters]})" if letter == "X" else rf"({_OFFSETS[letters]})"
        if letters == "VV":
            self._fields.append("zone")
            return r"([A-Za-z][\w/+-]*|[+-]\d\d:\d\d)"
        raise PatternError(
            f"{self._pattern!r} has {letters!r}, which is not known here; there are y, u, M, d, H, h, a, m, "
            "s, S, X, Z, VV and 'text'. Make the column a string and use to_timestamp"
        )


@functools.lru_cache(maxsize=100)
def pattern_parser(pattern: str) -> PatternParser:
    """Return the parser of a pattern."""
    return PatternParser(pattern)


def _days(parts: dict[str, str]) -> int | None:
    year = int(parts.get("year", "1970"))
    if "short year" in parts:
        year = _PIVOT + int(parts["short year"])
    month = int(parts.get("month", "1"))
    if "month name" in parts:
        names = _FULL_MONTHS if parts["month name"].lower() in _FULL_MONTHS else _MONTHS
        month = names.index(parts["month name"].lower()) + 1
    return days_from(year, month, int(parts.get("day", "1")))
