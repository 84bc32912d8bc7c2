"""The client suite is itself tested: a client with one thing wrong must fail it.

Each mutant is the small client of `small_client` with one behaviour broken. Only the cases of the rule
that it breaks are played, until one fails. A mutant that survives is a hole in the suite.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.client_suite.small_client.mutants import MUTANTS, VARIANTS
from millstream_conformance.client import Case, discover, run_cases
from millstream_conformance.client.rules import RULES
from millstream_conformance.results import Run

ADAPTER = [sys.executable, str(Path(__file__).parent / "small_client")]


def test_a_correct_client_passes() -> None:
    run = run_cases(ADAPTER, discover())
    assert [(result.check.id, result.message) for result in run.failures] == []
    assert run.count("passed") == len(run.results) >= 200


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_client_that_the_protocol_allows_conforms(variant: str) -> None:
    run = run_cases([*ADAPTER, variant], discover())
    assert [(result.check.id, result.message) for result in run.failures if not result.is_stricter] == []
    assert run.failures, "the stricter cases do not notice it"


def test_every_rule_has_a_mutant() -> None:
    assert set(MUTANTS.values()) == set(RULES)
    assert len(MUTANTS) >= 60


def judged(mutant: str) -> Run[Case]:
    return run_cases([*ADAPTER, mutant], discover(only=[MUTANTS[mutant]]), jobs=1, stop_at_failure=True)


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, Future[Run[Case]]]]:
    """All mutants side by side: most of them wait for something that does not come."""
    with ThreadPoolExecutor(6) as threads:
        yield {mutant: threads.submit(judged, mutant) for mutant in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_suite_catches(mutant: str, runs: dict[str, Future[Run[Case]]]) -> None:
    assert runs[mutant].result().failures, f"survivor: {mutant}"
