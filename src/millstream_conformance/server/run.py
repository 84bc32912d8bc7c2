"""Run the server suite against a URL: what the command line calls.

It needs no pytest: checks are functions, and this loops over them. The exit code is 0 when
something ran and nothing failed, 1 when something failed, 2 when nothing could be run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from millstream_conformance import reports
from millstream_conformance.reports import words
from millstream_conformance.server.checks import Check, discover
from millstream_conformance.server.console import Console, coverage_text
from millstream_conformance.server.results import Result, Run
from millstream_conformance.server.suites import Suite

DEFAULT_URL = "http://127.0.0.1:4437"
# After this many checks in a row without any answer the server is taken for dead.
MAX_SILENT, SILENCE = 4, "no answer in"


def run_server_suite(
    url: str | None = DEFAULT_URL,
    *,
    only: str | Iterable[str] = (),
    skip: str | Iterable[str] = (),
    rules: str | Iterable[str] = (),
    restart_command: str | None = None,
    report: str | Iterable[str] = (),
    report_path: str | Path | None = None,
    coverage: bool = False,
    verbose: bool = False,
    output: TextIO | None = None,
) -> int:
    """Judge the server at `url` and return an exit code.

    `only` and `skip` name groups (`closure`, `producers`, `live`, `stricter`, ...), `rules` rule
    numbers. `report` is one of json, junit, html or several of them; a report is written to
    `report_path`, by default `conformance-server.{json,xml,html}` in the current directory.
    `coverage` prints which rules have no check; with `url=None` that is all that happens.
    Everything that can be several may also be one string with commas.
    """
    console = Console(output or sys.stdout, verbose=verbose)
    try:
        wanted = reports.chosen(report)
        checks = discover(words(only), words(skip), words(rules))
    except ModuleNotFoundError as error:
        console.complain(f"{error}: pip install 'millstream[conformance]'")
        return 2
    except ValueError as error:
        console.complain(str(error))
        return 2
    if coverage:
        console.write(coverage_text(discover()))
    if url is None:
        return 0
    try:
        suite = Suite(url, restart_command=restart_command)
    except (ValueError, AssertionError) as error:
        console.complain(str(error))
        return 2
    run = _run(suite, checks, console)
    for path in reports.write(run, wanted, report_path):
        console.write(f"report: {path}")
    return 0 if run.ok else 1


def run_checks(url: str, checks: Sequence[Check], *, restart_command: str | None = None) -> Run:
    """Run the given checks and return every result as data."""
    return _run(Suite(url, restart_command=restart_command), checks, None)


def _run(suite: Suite, checks: Sequence[Check], console: Console | None) -> Run:
    started = time.perf_counter()
    run = Run(suite.address.url, suite.offers, started_at=datetime.now(UTC).isoformat(timespec="seconds"))
    if console:
        console.begin(run, len(checks))
    try:
        for result in _results(suite, checks):
            run.results.append(result)
            if console:
                console.show(result)
    finally:
        suite.close()
    run.elapsed_s = time.perf_counter() - started
    run.answers_seen = suite.invariants.seen
    if console:
        console.end(run)
    return run


def _results(suite: Suite, checks: Sequence[Check]) -> Iterator[Result]:
    """The results in order. A server that has fallen silent is not asked for the rest."""
    suite.start(checks)
    silent = 0
    for check in checks:
        if silent >= MAX_SILENT:
            yield Result(check, "skipped", "the server stopped answering")
            continue
        result = suite.run(check)
        silent = silent + 1 if result.outcome == "failed" and SILENCE in result.message else 0
        yield result
