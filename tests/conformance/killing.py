"""Run the checks of a mutant's rules until one of them fails.

Only checks that name one of the mutant's rules are run, so a failure proves two things: the suite
catches the mutant, and the rule numbers of the checks are right. Checks that fail without any mutation
are left out: they would fail for every mutant.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from conformance.proxy import MutatingProxy, Mutation
from millstream_conformance.server.checks import discover
from millstream_conformance.server.offers import Offers
from millstream_conformance.server.results import Result
from millstream_conformance.server.suites import Suite

_ALL = discover()


def first_failure(
    upstream_url: str,
    mutation: Mutation,
    rules: Sequence[str],
    *,
    offers: Offers,
    unsound: Collection[str] = (),
    restart_command: str = "",
) -> Result | None:
    """The first check that fails against a mutant, or None when it survives."""
    chosen = [check for check in _ALL if set(rules) & set(check.notes.rules) and check.id not in unsound]
    chosen.sort(key=lambda check: (check.notes.restart, check.notes.patient, check.group == "every_answer"))
    with MutatingProxy(upstream_url, mutation) as proxy:
        restart = restart_command.format(url=proxy.url)
        suite = Suite(proxy.url, offers=offers, restart_command=restart)
        try:
            suite.start(chosen)
            found = next((result for result in map(suite.run, chosen) if result.outcome == "failed"), None)
        finally:
            suite.close()
        if proxy.errors:
            raise proxy.errors[0]
    return found
