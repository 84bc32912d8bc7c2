"""What a person sees in a terminal: one line per group, failures with their exchange, a summary."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TextIO

from millstream_conformance.server.cases import NAMED, unclaimed
from millstream_conformance.server.checks import Check
from millstream_conformance.server.results import Result, Run, tally
from millstream_conformance.server.rules import RULES, counts, uncovered, unknown

MARKS = {"passed": ".", "failed": "F", "skipped": "s"}


class Console:
    """Writes a run as it happens. In a terminal the outcomes are coloured."""

    def __init__(self, stream: TextIO, *, verbose: bool = False) -> None:
        self._stream = stream
        self._verbose = verbose
        self._group = ""
        self._colours = stream.isatty()

    def write(self, text: str, end: str = "\n") -> None:
        """Write a line."""
        self._stream.write(text + end)
        self._stream.flush()

    def begin(self, run: Run, number: int) -> None:
        """Say what is about to happen."""
        self.write(f"durable streams conformance: {number} checks against {run.url}")

    def show(self, result: Result) -> None:
        """Add one outcome to its group's line."""
        if self._verbose:
            self.write(f"{result.outcome:8} {result.check.id}  {', '.join(result.check.notes.rules)}")
            return
        if result.check.group != self._group:
            self._group = result.check.group
            self.write(f"\n  {self._group:18} ", end="")
        self.write(self._coloured(MARKS[result.outcome], result.outcome), end="")

    def end(self, run: Run) -> None:
        """Show every failure with its exchange, then the summary."""
        self.write("")
        for result in run.failures:
            self.write(self._coloured(f"\nFAILED {result.check.id}", "failed"))
            self.write(f"  {result.check.title}")
            for number in result.check.notes.rules:
                self.write(f"  {number}: {RULES[number].text}")
            if result.check.notes.stricter:
                self.write(f"  stricter than the protocol's text: {result.check.notes.stricter}")
            self.write(_indented(result.message, "    "))
            self.write(_indented(result.exchange, "      "))
        for sentence in run.announcements():
            self.write(f"not offered: {sentence}")
        verdict = "conforms" if run.ok else "does not conform"
        self.write(
            f"{run.url} {verdict}: {tally(run.results)} ({run.answers_seen} answers in {run.elapsed_s:.1f} s)"
        )

    def _coloured(self, text: str, outcome: str) -> str:
        codes = {"passed": "32", "failed": "31;1", "skipped": "33"}
        return f"\x1b[{codes[outcome]}m{text}\x1b[0m" if self._colours else text


def _indented(text: str, by: str) -> str:
    return "\n".join(f"{by}{line}".rstrip() for line in text.splitlines())


def coverage_text(checks: Sequence[Check]) -> str:
    """Which rules and named cases the suite covers, and which it does not."""
    named = counts(checks)
    lines = [f"{len(checks)} checks, {len(RULES)} rules, {sum(map(len, NAMED.values()))} named cases"]
    for letter, numbers in groupby(RULES, key=lambda number: number[0]):
        lines.append("  " + "  ".join(f"{number}:{named[number]}" for number in numbers if letter))
    missing = [f"  {rule.number}  {rule.text}" for rule in uncovered(checks)]
    lines += ["rules without a check:", *(missing or ["  none"])]
    lines += ["named cases without a check:", *([f"  {name}" for name in unclaimed(checks)] or ["  none"])]
    lines += [f"  unknown rule {number}" for number in unknown(checks)]
    return "\n".join(lines)
