"""Terminal output: one line per group, every failure with its exchange, a summary."""

from __future__ import annotations

import sys
from typing import TextIO

from millstream_conformance.results import Result, Run, tally
from millstream_conformance.rules import Check

MARKS = {"passed": ".", "failed": "F", "skipped": "s"}


class Console:
    """Prints a run while it happens. On a terminal the outcomes are coloured."""

    def __init__(self, stream: TextIO, *, verbose: bool = False) -> None:
        self._stream = stream
        self._verbose = verbose
        self._group = ""
        self._colours = stream.isatty()

    def write(self, text: str, end: str = "\n") -> None:
        """Write a line."""
        self._stream.write(text + end)
        self._stream.flush()

    def error(self, text: str) -> None:
        """Say why the suite cannot run: on stderr, unless the caller gave a stream."""
        stream = sys.stderr if self._stream is sys.stdout else self._stream
        stream.write(f"cannot run the suite: {text}\n")
        stream.flush()

    def begin(self, run: Run[Check], number: int) -> None:
        """Print what is going to run."""
        self.write(f"durable streams conformance: {number} checks against {run.subject}")

    def show(self, result: Result[Check]) -> None:
        """Add one outcome to its group's line: `f` for a failed stricter check, `r` after a retry."""
        if self._verbose:
            outcome = self._coloured(f"{_outcome(result):17}", result.outcome)
            self.write(f"{outcome} {result.check.id}  {', '.join(result.check.notes.rules)}")
            return
        if result.check.group != self._group:
            self._group = result.check.group
            self.write(f"\n  {self._group:18} ", end="")
        mark = "r" if result.was_retried else MARKS[result.outcome]
        self.write(self._coloured(mark.lower() if result.is_stricter else mark, result.outcome), end="")

    def end(self, run: Run[Check]) -> None:
        """Print every failure with its exchange, then the summary."""
        self.write("")
        for result in run.failures:
            self._show_failure(result, run)
        for result in run.retried:
            self.write(f"passed on try {result.tries}: {result.check.id}")
        for sentence in run.missing_parts():
            self.write(f"not offered: {sentence}")
        verdict = "conforms" if run.conforms else "does not conform"
        took = f"{run.answers_seen} answers in {run.elapsed_s:.1f} s"
        self.write(f"{run.subject} {verdict}: {tally(run.results)} ({took})")
        if run.retried:
            self.write(f"{len(run.retried)} of the passed checks needed a further try")
        if run.conforms and not run.ok:
            self.write("failed because of --strict: stricter checks failed")

    def _show_failure(self, result: Result[Check], run: Run[Check]) -> None:
        kind = "FAILED (stricter)" if result.is_stricter else "FAILED"
        self.write(self._coloured(f"\n{kind} {result.check.id}", "failed"))
        self.write(f"  {result.check.title}")
        for number in result.check.notes.rules:
            self.write(f"  {number} (section {run.rules[number].section}): {run.rules[number].text}")
        if result.is_stricter:
            self.write(f"  stricter than the protocol's text: {result.check.notes.stricter}")
        if result.tries > 1:
            self.write(f"  failed in each of {result.tries} tries")
        self.write(_indented(result.message, "    "))
        self.write(_indented(result.exchange, "      "))

    def _coloured(self, text: str, outcome: str) -> str:
        codes = {"passed": "32", "failed": "31;1", "skipped": "33"}
        return f"\x1b[{codes[outcome]}m{text}\x1b[0m" if self._colours else text


def _outcome(result: Result[Check]) -> str:
    if result.was_retried:
        return f"passed (try {result.tries})"
    if result.outcome == "failed" and result.is_stricter:
        return "failed (stricter)"
    return result.outcome


def _indented(text: str, by: str) -> str:
    return "\n".join(f"{by}{line}".rstrip() for line in text.splitlines())
