"""Rules: what is expected of records, as text: `positive: cents > 0`.

The form is checked here, without Spark, which takes seconds to start. What a condition means, Spark decides.
"""

import re
from collections.abc import Iterable

import msgspec

from millstream.spark.options import OptionError

QUARANTINE, DROP, FAIL = "quarantine", "drop", "fail"
_ACTIONS = (QUARANTINE, DROP, FAIL)
_RULE = re.compile(r"\s*([^\W\d][\w-]*)\s*:(?!:)(.*)", re.DOTALL)
_EXAMPLE = "write it as 'positive: cents > 0'"
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL)
# A batch may be read more than once, and each time a record has to meet the same fate.
_RANDOM = re.compile(
    r"\b(rand|random|randn|uuid|shuffle|randstr|uniform|monotonically_increasing_id|spark_partition_id)\s*\("
)


class Rule(msgspec.Struct, frozen=True):
    """A condition that records meet, in SQL, and what happens to those for which it is not true.

    `quarantine`: it is a bad record. `drop`: it is left out. `fail`: the pipeline stops.
    """

    name: str
    condition: str
    action: str = QUARANTINE

    def __post_init__(self) -> None:
        if self.action not in _ACTIONS:
            raise OptionError("expect", f"{self.action!r} is not one of {', '.join(_ACTIONS)}")


def rule(text: str, action: str = QUARANTINE) -> Rule:
    """Parse `NAME: CONDITION`; refuse what Spark would refuse, as far as that can be seen."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise OptionError("expect", f"{text!r} has no name; {_EXAMPLE}")
    name, condition = found[1], found[2].strip()
    code = _TEXT.sub("''", condition)
    if not condition:
        raise OptionError("expect", f"{name} has no condition; {_EXAMPLE}")
    if any(quote in code.replace("''", "") for quote in "'\"`"):
        raise OptionError("expect", f"{name}: {condition!r} has a quote that is not closed")
    if not _is_balanced(code):
        raise OptionError("expect", f"{name}: {condition!r} has a bracket that is not closed, or not opened")
    if random := _RANDOM.search(code.lower()):
        raise OptionError(
            "expect", f"{name}: {random[1]} is another value each time a record is read; compare its fields"
        )
    return Rule(name, condition, action)


def checked(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Refuse two rules of one name, whose counts could not be told apart."""
    found = tuple(rules)
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise OptionError("expect", f"{name} is there twice; give one of them another name")
    return found


def _is_balanced(code: str) -> bool:
    depth = 0
    for character in code:
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            return False
    return depth == 0
