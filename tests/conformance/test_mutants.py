"""The suite is itself tested: a server with one rule broken must fail it.

Each mutant is our server behind a proxy that breaks one thing. The checks of the broken rules are run
until one fails. A mutant that survives is a hole in the suite.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator

import pytest

import conformance.mutants_appending
import conformance.mutants_caching
import conformance.mutants_changing
import conformance.mutants_closing
import conformance.mutants_creating
import conformance.mutants_expecting
import conformance.mutants_forks
import conformance.mutants_http
import conformance.mutants_live
import conformance.mutants_many
import conformance.mutants_many_parts
import conformance.mutants_producers
import conformance.mutants_reading
import conformance.mutants_subscriptions
import conformance.mutants_times  # noqa: F401 - importing them registers the mutants
from conformance.killing import first_failure
from conformance.mutants import MUTANTS, Mutant
from conformance.proxy import MutatingProxy
from millstream_conformance.server import discover, run_checks
from millstream_conformance.server.offers import Offers
from millstream_conformance.server.results import Run
from millstream_conformance.server.suites import Suite
from running import HASTY_MS, millstream

# The restart is a request that mutants can see; the memory store behind the proxy keeps its data.
RESTART = f"{sys.executable} -c " + shlex.quote(
    "import urllib.request as u; u.urlopen(u.Request('{url}/restarted', method='OPTIONS')).close()"
)


TRIES = 3  # the checks measure time, and other tests keep this machine busy


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with millstream(long_poll_ms=HASTY_MS) as server:
        yield server.url


@pytest.fixture(scope="module")
def offers(url: str) -> Offers:
    suite = Suite(url, restart_command=RESTART)
    suite.close()
    return suite.offers


@pytest.fixture(scope="module")
def unmutated(url: str) -> Run:
    """All checks through the proxy, without any mutation."""
    with MutatingProxy(url) as proxy:
        return run_checks(proxy.url, discover(), tries=TRIES)


@pytest.fixture(scope="module")
def unsound(unmutated: Run) -> set[str]:
    """The checks that fail without any mutation: none, while our server conforms."""
    return {result.check.id for result in unmutated.failures}


def test_there_are_enough_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 60


def test_the_proxy_is_invisible_and_the_suite_is_quick(unmutated: Run) -> None:
    """Without a mutation every check passes, as it does without the proxy (`test_server_suite`)."""
    assert [result.check.id for result in unmutated.failures] == []
    assert unmutated.elapsed_s < 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_suite_catches(mutant: Mutant, url: str, offers: Offers, unsound: set[str]) -> None:
    if missing := offers.missing(list(mutant.needs)):
        pytest.skip(f"our server has no {missing[0]}")
    killed_by = first_failure(
        url, mutant.mutation(), mutant.rules, offers=offers, unsound=unsound, restart_command=RESTART
    )
    assert killed_by is not None, f"survivor: {mutant.name}: {mutant.fault.__doc__}"
    if os.environ.get("SHOW_KILLERS"):
        print(f"KILL {mutant.name} <- {killed_by.check.id}: {killed_by.message[:300]!r}")
