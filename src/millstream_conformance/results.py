"""What became of each check: the one shape that console, JSON, JUnit and HTML are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from millstream_conformance.rules import Check, Rule

Outcome = Literal["passed", "failed", "skipped"]
C = TypeVar("C", bound=Check, covariant=True)


@dataclass(frozen=True)
class Result(Generic[C]):
    """One check's outcome; `message` says why, `exchange` shows what was said."""

    check: C
    outcome: Outcome
    message: str = ""
    exchange: str = ""
    elapsed_s: float = 0.0


@dataclass
class Run(Generic[C]):
    """All results of a run. The subject is what was judged: a server's URL, a client's adapter."""

    suite: Literal["server", "client"]
    subject: str
    rules: Mapping[str, Rule]
    descriptions: Mapping[str, str]
    """Everything that an implementation may leave out, with a description."""
    present: frozenset[str]
    results: list[Result[C]] = field(default_factory=list)
    started_at: str = ""
    elapsed_s: float = 0.0
    answers_seen: int = 0

    def count(self, outcome: Outcome) -> int:
        """How many checks ended so."""
        return sum(result.outcome == outcome for result in self.results)

    @property
    def failures(self) -> list[Result[C]]:
        """The failed checks, in order."""
        return [result for result in self.results if result.outcome == "failed"]

    @property
    def ok(self) -> bool:
        """Whether anything ran and nothing failed."""
        return self.count("passed") > 0 and not self.failures

    @property
    def absent(self) -> list[str]:
        """Everything optional that is not there, in the table's order."""
        return [part for part in self.descriptions if part not in self.present]

    def by_group(self) -> dict[str, list[Result[C]]]:
        """Results by group, groups in the order in which they ran."""
        grouped: dict[str, list[Result[C]]] = {}
        for result in self.results:
            grouped.setdefault(result.check.group, []).append(result)
        return grouped

    def announcements(self) -> list[str]:
        """One sentence per optional part that made checks be skipped."""
        skipped = Counter(
            next(part for part in result.check.notes.needs if part not in self.present)
            for result in self.results
            if result.outcome == "skipped" and not self.present.issuperset(result.check.notes.needs)
        )
        return [f"{self.descriptions[part]}: {number} skipped" for part, number in skipped.items()]


def tally(results: Iterable[Result[Check]]) -> str:
    """`12 passed, 1 failed, 3 skipped`, leaving out the zeros."""
    counted = Counter(result.outcome for result in results)
    outcomes: tuple[Outcome, ...] = ("passed", "failed", "skipped")
    return (
        ", ".join(f"{counted[outcome]} {outcome}" for outcome in outcomes if counted[outcome])
        or "nothing ran"
    )
