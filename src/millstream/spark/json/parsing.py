"""Parsing: one JSON message into the values of typed columns, as Spark's own JSON source does.

A missing field is null. A value of another type than its column makes the record corrupt: that value is
null, and the others are kept. A string column takes any value, as text: numbers as they were written,
objects and arrays as compact JSON.

This is the slow, exact way, message by message; `fields` uses a faster one where possible.
"""

import base64
import binascii
import json
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import msgspec
import pyarrow
from pyarrow import types

from millstream.spark.json import times
from millstream.spark.json.messages import Message
from millstream.spark.json.time_patterns import pattern_parser

Convert = Callable[[Any], Any]
"""Convert a value to its column's type, or raise `_MisfitError`."""

_LONG = 1 << 63
_NOT_FINITE = {
    "NaN": "nan",
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), "inf"),
    **dict.fromkeys(("-Infinity", "-INF"), "-inf"),
}


class Formats(msgspec.Struct, frozen=True):
    """How times and dates are written; None: as Spark casts text to them. `zone` is for those without one."""

    timestamp: str | None = None
    date: str | None = None
    zone: str = "UTC"

    def micros(self) -> Callable[[str], int | None]:
        """Return what reads a time as microseconds since 1970; None for text that is not one."""
        zone = times.zone_of(self.zone) or times.UTC
        if self.timestamp is None:
            return lambda text: times.micros_of(text, zone)
        parse = pattern_parser(self.timestamp)
        return lambda text: parse.micros(text, zone)

    def days(self) -> Callable[[str], int | None]:
        """Return what reads a date as days since 1970; None for text that is not one."""
        return times.days_of if self.date is None else pattern_parser(self.date).days


_USUAL = Formats()


class Parsed(msgspec.Struct, frozen=True, gc=False):
    """One parsed message: values by field, empty if it is not an object; and whether all of it fits."""

    values: dict[str, Any]
    fits: bool


class _MisfitError(Exception):
    """A value is not of its column's type; `kept` is the part that is."""

    def __init__(self, kept: Any = None) -> None:
        super().__init__()
        self.kept = kept


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


_decoder = json.JSONDecoder(
    parse_int=_Number, parse_float=_Number, parse_constant=lambda name: _Number(_NOT_FINITE[name])
)


class MessageParser:
    """Parses messages for the fields of a schema."""

    def __init__(self, schema: pyarrow.Schema, formats: Formats = _USUAL) -> None:
        self._convert = _struct(list(schema), formats)

    def parse(self, message: Message) -> Parsed:
        """Parse one message."""
        try:
            found = _decoder.decode(bytes(message).decode(errors="replace"))
            return Parsed({} if found is None else self._convert(found), fits=True)
        except _MisfitError as misfit:
            return Parsed(misfit.kept or {}, fits=False)
        except (ValueError, RecursionError):  # not JSON, or nested too deeply
            return Parsed({}, fits=False)


def _converter(kind: pyarrow.DataType, formats: Formats) -> Convert:
    """Choose the conversion for a type."""
    if types.is_string(kind):
        return _string
    if types.is_boolean(kind):
        return _boolean
    if types.is_integer(kind):
        return _integer(kind.bit_width)
    if types.is_floating(kind):
        return _floating
    if types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return _timestamp(formats.micros())
    if types.is_date32(kind):
        return _date(formats.days())
    if types.is_binary(kind):
        return _binary
    if types.is_list(kind):
        return _list(_converter(kind.value_type, formats))
    if types.is_map(kind):
        return _map(_converter(kind.item_type, formats))
    return _struct([kind.field(number) for number in range(kind.num_fields)], formats)


def _string(found: Any) -> str:
    if not isinstance(found, str):
        found = _written(found)
    return str(found).encode(errors="replace").decode()  # a lone surrogate is not a character


def _written(found: Any) -> str:
    """Format as JSON, with numbers as they were written."""
    if isinstance(found, dict):
        return "{" + ",".join(f"{_written(name)}:{_written(one)}" for name, one in found.items()) + "}"
    if isinstance(found, list):
        return "[" + ",".join(map(_written, found)) + "]"
    return str(found) if isinstance(found, _Number) else json.dumps(found, ensure_ascii=False)


def _boolean(found: Any) -> bool:
    if not isinstance(found, bool):
        raise _MisfitError
    return found


def _integer(bits: int) -> Convert:
    bound = 1 << (bits - 1)

    def convert(found: Any) -> int:
        number = _long(found)
        if number is not None and -bound <= number < bound:
            return number
        raise _MisfitError

    return convert


def _long(found: Any) -> int | None:
    """Return a number of at most 64 bits that was written as an integer."""
    if isinstance(found, _Number) and len(found) <= 20 and found.removeprefix("-").isdecimal():
        number = int(found)
        if -_LONG <= number < _LONG:
            return number
    return None


def _wrapped(number: int) -> int:
    """Return what is left of a number in 64 bits, as Spark has it."""
    return (number + _LONG) % (2 * _LONG) - _LONG


def _floating(found: Any) -> float:
    if isinstance(found, _Number):
        return 0.0 if found == "-0" else float(found)  # an integer has no signed zero
    if isinstance(found, str) and found in _NOT_FINITE:
        return float(_NOT_FINITE[found])
    raise _MisfitError


def _decimal(precision: int, scale: int) -> Convert:
    exact = Context(prec=precision, rounding=ROUND_HALF_UP)

    def convert(found: Any) -> Decimal:
        if not isinstance(found, str):
            raise _MisfitError
        try:
            number = Decimal(found).quantize(Decimal(1).scaleb(-scale), context=exact)
        except InvalidOperation:  # not a number, or one with too many digits
            raise _MisfitError from None
        if not number.is_finite():
            raise _MisfitError
        return number

    return convert


def _timestamp(micros_of: Callable[[str], int | None]) -> Convert:
    def convert(found: Any) -> int:
        if isinstance(found, _Number):
            seconds = _long(found)
            micros = None if seconds is None else _wrapped(seconds * times.SECOND_US)
        else:
            micros = micros_of(found) if isinstance(found, str) else None
        if micros is None:
            raise _MisfitError
        return micros

    return convert


def _date(days_of: Callable[[str], int | None]) -> Convert:
    def convert(found: Any) -> int:
        days = days_of(found) if isinstance(found, str) and not isinstance(found, _Number) else None
        if days is None:
            raise _MisfitError
        return days

    return convert


def _binary(found: Any) -> bytes:
    if not isinstance(found, str) or isinstance(found, _Number):
        raise _MisfitError
    try:
        return base64.b64decode(found, validate=True)
    except (binascii.Error, ValueError):
        raise _MisfitError from None


def _list(convert: Convert) -> Convert:
    def convert_all(found: Any) -> list[Any]:
        if not isinstance(found, list):
            raise _MisfitError
        return [_part(one, convert) for one in found]

    return convert_all


def _map(convert: Convert) -> Convert:
    def convert_all(found: Any) -> list[tuple[str, Any]]:
        if not isinstance(found, dict):
            raise _MisfitError
        return [(_string(name), _part(one, convert)) for name, one in found.items()]

    return convert_all


def _part(found: Any, convert: Convert) -> Any:
    """Convert an element of a list or a map; a misfit discards the whole."""
    if found is None:
        return None
    try:
        return convert(found)
    except _MisfitError:
        raise _MisfitError from None


def _struct(fields: list[pyarrow.Field], formats: Formats) -> Convert:
    converters = {field.name: _converter(field.type, formats) for field in fields}

    def convert(found: Any) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise _MisfitError
        made: dict[str, Any] = {}
        fits = True
        for name, convert_one in converters.items():
            one = found.get(name)
            if one is None:
                continue
            try:
                made[name] = convert_one(one)
            except _MisfitError as misfit:
                fits = False
                made[name] = misfit.kept
        if not fits:
            raise _MisfitError(made)
        return made

    return convert
