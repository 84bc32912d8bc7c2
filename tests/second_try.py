"""Runs the few tests that failed in `make test` once more, alone; `.ci/run` calls this, nothing else does.

A test that fails beside all others and passes alone is a bug, in the test or in what it tests, and is named
here so that somebody fixes it. It does not hold up the changes of others. A test that fails twice does, and
so do more than a few failures, and a run that did not come to its end: nobody knows what it left out.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

MOST = 5
_FAILED = "cache/lastfailed"  # kept by pytest
_STATUS = "millstream/exit_status"  # kept by `note_end`, which `conftest` calls


def note_end(session: pytest.Session) -> None:
    """Keep how a run of tests ended; those of a worker are a part of it."""
    cache = getattr(session.config, "cache", None)  # -p no:cacheprovider
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set(_STATUS, int(session.exitstatus))


class _Passed:
    """Notes which tests pass."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.names.add(report.nodeid)


def try_again() -> int:
    """Run what failed, and give the exit code for the whole."""
    failed = sorted(_kept(_FAILED) or ())
    if _kept(_STATUS) != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= MOST:
        return 1
    _announce(f"{len(failed)} failed; once more, alone", failed)
    passed = _Passed()
    code = pytest.main(["--last-failed", "--last-failed-no-failures", "none"], [passed])
    if code != pytest.ExitCode.OK or not passed.names.issuperset(failed):
        return 1
    _announce("PASSED ONLY THE SECOND TIME: a bug to be fixed, see CONTRIBUTING.md", failed)
    return 0


def _kept(name: str) -> Any:
    path = Path(".pytest_cache/v") / name
    return json.loads(path.read_text()) if path.exists() else None


def _announce(title: str, names: list[str]) -> None:
    print("\n" + "!" * 100, title, *names, "!" * 100, sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(try_again())
