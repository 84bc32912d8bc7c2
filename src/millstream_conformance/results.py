"""The results of a run: the one data model behind console, JSON, JUnit and HTML.

A failed check is *required* when PROTOCOL.md demands what it checks, and *stricter* when it asks for
more. Only required failures decide whether an implementation conforms; with `strict`, stricter
failures also fail the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from millstream_conformance.rules import Check, Rule

Outcome = Literal["passed", "failed", "skipped"]
OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "skipped")
C = TypeVar("C", bound=Check, covariant=True)


@dataclass(frozen=True)
class Result(Generic[C]):
    """The outcome of one check; `message` says why, `exchange` shows the HTTP messages."""

    check: C
    outcome: Outcome
    message: str = ""
    exchange: str = ""
    elapsed_s: float = 0.0
    tries: int = 1
    """How often it was run. A check that passed after the first try has the first failure in `message`."""

    @property
    def is_stricter(self) -> bool:
        """Whether the check asks for more than the protocol's text."""
        return bool(self.check.notes.stricter)

    @property
    def was_retried(self) -> bool:
        """Whether it passed, but not on the first try."""
        return self.outcome == "passed" and self.tries > 1


@dataclass
class Run(Generic[C]):
    """All results of a run. The subject is what was tested: a server's URL or a client's adapter."""

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
    strict: bool = False
    """Whether failures of stricter checks fail the run."""

    def count(self, outcome: Outcome, *, stricter: bool | None = None) -> int:
        """How many checks have this outcome: all, only stricter, or only required ones."""
        return sum(
            result.outcome == outcome and stricter in {None, result.is_stricter} for result in self.results
        )

    @property
    def failures(self) -> list[Result[C]]:
        """All failed checks, in order."""
        return [result for result in self.results if result.outcome == "failed"]

    @property
    def retried(self) -> list[Result[C]]:
        """The checks that passed only after a further try."""
        return [result for result in self.results if result.was_retried]

    def counts_as_failure(self, result: Result[C]) -> bool:
        """Whether a result fails the run."""
        return result.outcome == "failed" and (self.strict or not result.is_stricter)

    @property
    def conforms(self) -> bool:
        """Whether something ran and no required check failed."""
        return self.count("passed") + self.count("failed") > 0 and not self.count("failed", stricter=False)

    @property
    def ok(self) -> bool:
        """Whether the run succeeded: exit code 0."""
        return self.conforms and not any(self.counts_as_failure(result) for result in self.results)

    @property
    def absent(self) -> list[str]:
        """All optional parts that are missing, in the table's order."""
        return [part for part in self.descriptions if part not in self.present]

    def by_group(self) -> dict[str, list[Result[C]]]:
        """Results by group, groups in the order in which they ran."""
        grouped: dict[str, list[Result[C]]] = {}
        for result in self.results:
            grouped.setdefault(result.check.group, []).append(result)
        return grouped

    def missing_parts(self) -> list[str]:
        """One sentence for each missing optional part that caused checks to be skipped."""
        skipped = Counter(
            next(part for part in result.check.notes.needs if part not in self.present)
            for result in self.results
            if result.outcome == "skipped" and not self.present.issuperset(result.check.notes.needs)
        )
        return [f"{self.descriptions[part]}: {number} skipped" for part, number in skipped.items()]


def tally(results: Iterable[Result[Check]]) -> str:
    """`12 passed, 1 failed; stricter: 5 passed, 2 failed; 3 skipped`, without the zeros."""
    found = list(results)
    counted = Counter((result.outcome, result.is_stricter) for result in found)
    ran: tuple[Outcome, ...] = ("passed", "failed")

    def listed(outcomes: Iterable[Outcome], *, stricter: bool = False) -> str:
        return ", ".join(
            f"{counted[outcome, stricter]} {outcome}" for outcome in outcomes if counted[outcome, stricter]
        )

    stricter = listed(ran, stricter=True)
    skipped = sum(result.outcome == "skipped" for result in found)
    parts = [
        listed(ran),
        f"stricter: {stricter}" if stricter else "",
        f"{skipped} skipped" if skipped else "",
    ]
    return "; ".join(part for part in parts if part) or "nothing ran"
