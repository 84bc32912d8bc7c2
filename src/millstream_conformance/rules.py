"""Rules as data: a number, the section of PROTOCOL.md, one sentence.

Each suite has its own table; `docs/rules.md` is generated from both. A rule without a check is a
hole in the suite: `uncovered` finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its number, its section of PROTOCOL.md, and what it demands."""

    number: str
    section: str
    text: str


class Notes(Protocol):
    """The metadata of a check: its rules, its other names, what it needs, why it is stricter."""

    @property
    def rules(self) -> Sequence[str]:
        """The numbers of the rules that it checks."""

    @property
    def cases(self) -> Sequence[str]:
        """Names of the same case in other lists."""

    @property
    def needs(self) -> Sequence[str]:
        """Optional parts without which it is skipped."""

    @property
    def stricter(self) -> str:
        """Why it asks for more than the protocol's text; empty when it does not."""


class Check(Protocol):
    """What the reports need to know of a check, in either suite."""

    @property
    def id(self) -> str:
        """`group/name`, unique within its suite."""

    @property
    def group(self) -> str:
        """The part of the suite that it belongs to."""

    @property
    def title(self) -> str:
        """One sentence: what a conforming implementation does."""

    @property
    def notes(self) -> Notes:
        """Its rules and needs."""


def parse(table: str) -> dict[str, Rule]:
    """Read a table of `number | section | sentence` lines."""
    rows = [[cell.strip() for cell in line.split("|", 2)] for line in table.strip().splitlines()]
    return {number: Rule(number, section, text) for number, section, text in rows}


def counts(checks: Iterable[Check]) -> Counter[str]:
    """How many checks name each rule."""
    return Counter(number for check in checks for number in check.notes.rules)


def uncovered(rules: Mapping[str, Rule], checks: Iterable[Check]) -> list[Rule]:
    """The rules that no check names."""
    named = counts(checks)
    return [rule for number, rule in rules.items() if not named[number]]


def unknown(rules: Mapping[str, Rule], checks: Iterable[Check]) -> list[str]:
    """Rule numbers that checks name but the table lacks."""
    return sorted(set(counts(checks)) - set(rules))
