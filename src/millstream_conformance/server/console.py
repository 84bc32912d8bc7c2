"""Terminal output about the suite itself: its coverage."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from millstream_conformance.console import Console
from millstream_conformance.server.cases import NAMED, unclaimed
from millstream_conformance.server.checks import Check
from millstream_conformance.server.rules import RULES, counts, uncovered, unknown

__all__ = ["Console", "coverage_text"]


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
