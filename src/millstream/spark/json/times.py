"""Times and dates in JSON text, as Spark's own JSON source reads them where no format is given.

        2026-11-18T09:30:00.5+01:00     2026-11-18 09:30     2026-11     9:30:00 Europe/Berlin

Parts may be left out from the end, and numbers may have one digit; a zone comes after seconds. A time without
one is in the zone of the option `timeZone`. A date may be written as a number of days. Results are
microseconds or days since 1970, because years beyond 9999 do not fit into a `datetime`.
"""

import datetime
import functools
import re
import zoneinfo

Zone = datetime.tzinfo

UTC: Zone = datetime.UTC
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US

_DAY = r"(?:-(?P<month>\d\d?)(?:-(?P<day>\d\d?)"
_MINUTE = r":(?P<minute>\d\d?)(?::(?P<second>\d\d?)(?:\.(?P<fraction>\d*))?(?P<zone>\s*[A-Za-z+-].*)?)?"
_TIMESTAMP = re.compile(
    rf"(?P<sign>[+-]?)(?P<year>\d{{4,6}}){_DAY}(?:[ T](?P<hour>\d\d?)(?:{_MINUTE})?)?)?)?", re.ASCII
)
_TIME_OF_DAY = re.compile(rf"T?(?P<hour>\d\d?){_MINUTE}", re.ASCII)
_DATE = re.compile(rf"(?P<sign>[+-]?)(?P<year>\d{{4,7}}){_DAY}(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_DAYS = re.compile(r"[+-]?\d{1,10}", re.ASCII)
_GREGORIAN_DAYS, _INT = -141_427, 1 << 31
"""To Spark, numbers of days before 1582 mean days of another calendar; here they are no dates."""

_EPOCH = datetime.date(1970, 1, 1)
_CYCLE_DAYS = 146_097  # 400 years, after which the calendar repeats
_FIRST_US, _LAST_US = -62_135_596_800 * SECOND_US, 253_402_300_799 * SECOND_US  # of a `datetime`
_LONG = 1 << 63
_MOST_OFFSET_S = 18 * 3600

_OFFSETS = [
    re.compile(rf"(?:UTC|GMT|UT)?([+-]){offset}", re.ASCII)
    for offset in (r"(\d\d?)(?::(\d\d?))?", r"(\d\d):?(\d\d):?(\d\d)", r"(\d\d)(\d\d)")
]
_SHORT_NAMES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""What Java takes names of three letters for, whatever they are elsewhere."""


def micros_of(text: str, zone: Zone) -> int | None:
    """Return the microseconds since 1970 of a time; None if it is not one."""
    found = _TIMESTAMP.fullmatch(text.strip())
    has_date = found is not None
    found = found or _TIME_OF_DAY.fullmatch(text.strip())
    if found is None:
        return None
    if found["zone"] is not None:
        named = zone_of(found["zone"].strip())
        if named is None:
            return None
        zone = named
    days = _days(found) if has_date else (datetime.datetime.now(zone).date() - _EPOCH).days
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    micro = int((found["fraction"] or "")[:6].ljust(6, "0"))
    return at_zone(days * DAY_US + (hour * 3600 + minute * 60 + second) * SECOND_US + micro, zone)


def days_of(text: str) -> int | None:
    """Return the days since 1970 of a date; what follows it is ignored. None if it is not one."""
    found = _DATE.fullmatch(text.strip())
    days = None if found is None else _days(found)
    if days is not None and -_INT <= days < _INT:
        return days
    if _DAYS.fullmatch(text) and _GREGORIAN_DAYS <= int(text) < _INT:
        return int(text)
    return None


def days_from(year: int, month: int, day: int) -> int | None:
    """Return the days since 1970 of a day of the Gregorian calendar; None if there is no such day."""
    cycles, within = divmod(year - 2000, 400)
    try:
        date = datetime.date(2000 + within, month, day)
    except ValueError:
        return None
    return (date - _EPOCH).days + cycles * _CYCLE_DAYS


def at_zone(local_us: int, zone: Zone) -> int | None:
    """Return the microseconds since 1970 of a local time; None if they do not fit into 64 bits."""
    offset_s = 0
    if zone is not UTC:
        # Beyond what a `datetime` holds, a year of the same calendar has the zone's rules.
        cycles = max(0, -(-(local_us - _LAST_US) // (_CYCLE_DAYS * DAY_US)))
        held_us = max(local_us - cycles * _CYCLE_DAYS * DAY_US, _FIRST_US)
        found = zone.utcoffset(datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=held_us))
        offset_s = 0 if found is None else round(found.total_seconds())
    micros = local_us - offset_s * SECOND_US
    return micros if -_LONG <= micros < _LONG else None


@functools.lru_cache(maxsize=1000)
def zone_of(name: str) -> Zone | None:
    """Return a zone by its offset (`+01:00`, `GMT+1`, `Z`) or its name; None if there is none."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    name = _SHORT_NAMES.get(name, name)
    found = next((match for offset in _OFFSETS if (match := offset.fullmatch(name))), None)
    if found is not None:
        hours, minutes, seconds = [int(part or 0) for part in (*found.groups()[1:], 0, 0)][:3]
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > _MOST_OFFSET_S:
            return None
        return datetime.timezone(datetime.timedelta(seconds=-total if found[1] == "-" else total))
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _days(found: re.Match[str]) -> int | None:
    year = int(found["year"]) * (-1 if found["sign"] == "-" else 1)
    return days_from(year, int(found["month"] or 1), int(found["day"] or 1))
