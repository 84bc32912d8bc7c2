"""Rules as data: a number, the section it stems from, one sentence.

Each suite has a table of its own. A rule without a check is a hole in the suite: `uncovered`
finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its number, the section that it stems from, and what it asks."""

    number: str
    section: str
    text: str


class Notes(Protocol):
    """What a check says about itself: its rules, its other names, what it needs, why it is strict."""

    @property
    def rules(self) -> Sequence[str]:
        """The numbers of the rules that it checks."""

    @property
    def cases(self) -> Sequence[str]:
        """Names that it is known by elsewhere."""

    @property
    def needs(self) -> Sequence[str]:
        """Optional parts without which it is skipped."""

    @property
    def stricter(self) -> str:
        """Why it may ask for more than the protocol's text; empty when it does not."""


class Check(Protocol):
    """What both suites call a check: anything that can be run, named and reported."""

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
