"""What became of each check: the one shape that console, JSON, JUnit and HTML are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from millstream_conformance.server.checks import Check
from millstream_conformance.server.offers import DESCRIPTIONS, Offers

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Result:
    """One check's outcome; `message` says why, `exchange` shows what was said."""

    check: Check
    outcome: Outcome
    message: str = ""
    exchange: str = ""
    elapsed_s: float = 0.0


@dataclass(slots=True)
class Run:
    """All results of a run against one server."""

    url: str
    offers: Offers
    results: list[Result] = field(default_factory=list)
    started_at: str = ""
    elapsed_s: float = 0.0
    answers_seen: int = 0

    def count(self, outcome: Outcome) -> int:
        """How many checks ended so."""
        return sum(result.outcome == outcome for result in self.results)

    @property
    def failures(self) -> list[Result]:
        """The failed checks, in order."""
        return [result for result in self.results if result.outcome == "failed"]

    @property
    def ok(self) -> bool:
        """Whether anything ran and nothing failed."""
        return self.count("passed") > 0 and not self.failures

    def by_group(self) -> dict[str, list[Result]]:
        """Results by group, groups in the order in which they ran."""
        grouped: dict[str, list[Result]] = {}
        for result in self.results:
            grouped.setdefault(result.check.group, []).append(result)
        return grouped

    def announcements(self) -> list[str]:
        """One sentence per optional part that made checks be skipped."""
        skipped = Counter(
            part
            for result in self.results
            if result.outcome == "skipped"
            for part in self.offers.missing(result.check.notes.needs)[:1]
        )
        return [f"{DESCRIPTIONS[part]}: {number} skipped" for part, number in skipped.items()]


def tally(results: Iterable[Result]) -> str:
    """`12 passed, 1 failed, 3 skipped`, leaving out the zeros."""
    counted = Counter(result.outcome for result in results)
    outcomes: tuple[Outcome, ...] = ("passed", "failed", "skipped")
    return (
        ", ".join(f"{counted[outcome]} {outcome}" for outcome in outcomes if counted[outcome])
        or "nothing ran"
    )
