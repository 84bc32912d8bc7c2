"""What a person sees in a terminal: one line per group, failures with their exchange, a summary."""

from __future__ import annotations

import sys
from typing import TextIO

from millstream_conformance.results import Result, Run, tally
from millstream_conformance.rules import Check

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

    def complain(self, text: str) -> None:
        """Say why nothing can be judged: among errors, unless everything goes to a stream of the caller's."""
        stream = sys.stderr if self._stream is sys.stdout else self._stream
        stream.write(f"cannot run the suite: {text}\n")
        stream.flush()

    def begin(self, run: Run[Check], number: int) -> None:
        """Say what is about to happen."""
        self.write(f"durable streams conformance: {number} checks against {run.subject}")

    def show(self, result: Result[Check]) -> None:
        """Add one outcome to its group's line."""
        if self._verbose:
            self.write(f"{result.outcome:8} {result.check.id}  {', '.join(result.check.notes.rules)}")
            return
        if result.check.group != self._group:
            self._group = result.check.group
            self.write(f"\n  {self._group:18} ", end="")
        self.write(self._coloured(MARKS[result.outcome], result.outcome), end="")

    def end(self, run: Run[Check]) -> None:
        """Show every failure with its exchange, then the summary."""
        self.write("")
        for result in run.failures:
            self.write(self._coloured(f"\nFAILED {result.check.id}", "failed"))
            self.write(f"  {result.check.title}")
            for number in result.check.notes.rules:
                self.write(f"  {number}: {run.rules[number].text}")
            if result.check.notes.stricter:
                self.write(f"  stricter than the protocol's text: {result.check.notes.stricter}")
            self.write(_indented(result.message, "    "))
            self.write(_indented(result.exchange, "      "))
        for result in run.results:
            if result.outcome == "passed" and result.message:
                self.write(f"{result.check.id} {result.message.splitlines()[0]}")
        for sentence in run.announcements():
            self.write(f"not offered: {sentence}")
        verdict = "conforms" if run.ok else "does not conform"
        took = f"{run.answers_seen} answers in {run.elapsed_s:.1f} s"
        self.write(f"{run.subject} {verdict}: {tally(run.results)} ({took})")

    def _coloured(self, text: str, outcome: str) -> str:
        codes = {"passed": "32", "failed": "31;1", "skipped": "33"}
        return f"\x1b[{codes[outcome]}m{text}\x1b[0m" if self._colours else text


def _indented(text: str, by: str) -> str:
    return "\n".join(f"{by}{line}".rstrip() for line in text.splitlines())
