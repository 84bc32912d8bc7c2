"""The documentation page of all rules, generated from the tables of both suites.

    python -m millstream_conformance.rules_page > docs/rules.md

Each rule has its number, its sentence, its section of PROTOCOL.md and the checks that prove it. A
check with several rows is listed once, with their number. A test compares the page with this output.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

from millstream_conformance.client import cases
from millstream_conformance.client import rules as client_rules
from millstream_conformance.rules import Check, Rule
from millstream_conformance.server import checks
from millstream_conformance.server import rules as server_rules

HEAD = """\
# Rules

A rule has a number, one sentence, and a section of PROTOCOL.md, the protocol's public text. Sources, tests
and reports refer to rules by number. Below each rule are the checks of the
[conformance suites](conformance.md) that prove it. A check marked *stricter* asks for more than the protocol
demands, and a failure does not count against conformance.

This page is generated: `python -m millstream_conformance.rules_page > docs/rules.md`.
"""
FAMILIES = {
    "P": "Paths", "O": "Offsets", "C": "Creating", "A": "Appending and closing", "R": "Producers",
    "G": "Reading", "L": "Live reads", "F": "Forks and lifetimes", "S": "Subscriptions",
    "H": "HTTP", "X": "Extensions of millstream",
}  # fmt: skip


def page() -> str:
    """The whole page."""
    server = _rules(server_rules.RULES, checks.discover(), FAMILIES)
    client = _rules(client_rules.RULES, cases.discover(), {})
    parts = [HEAD, "## Rules for servers\n", *server, "## Rules for clients\n", *client]
    return "\n".join(parts)


def _rules(rules: Mapping[str, Rule], found: Iterable[Check], families: Mapping[str, str]) -> Iterator[str]:
    proofs: dict[str, list[Check]] = {}
    for check in found:
        for number in check.notes.rules:
            proofs.setdefault(number, []).append(check)
    family = ""
    for number, rule in rules.items():
        if families.get(number[0], "") != family:
            family = families[number[0]]
            yield f"### {family}\n"
        yield f"#### {number}\n\n{rule.text} (section {rule.section})\n"
        yield "\n".join(f"- {line}" for line in _lines(proofs.get(number, []))) + "\n"


def _lines(proofs: Iterable[Check]) -> Iterator[str]:
    """One line for each check; rows of the same check are counted."""
    rows: dict[str, list[Check]] = {}
    for check in proofs:
        rows.setdefault(check.id.partition("[")[0], []).append(check)
    for name, same in rows.items():
        stricter = sum(bool(check.notes.stricter) for check in same)
        notes = [f"{len(same)} rows"] if len(same) > 1 else []
        if stricter:
            notes.append("*stricter*" if stricter == len(same) else f"{stricter} *stricter*")
        yield f"`{name}`" + (f" ({', '.join(notes)})" if notes else "")


if __name__ == "__main__":
    sys.stdout.write(page())
