"""Run the server suite against a URL: what the command line calls.

It needs no pytest: checks are functions, and this loops over them. The exit code is 0 when no
required check failed, 1 when one did (with `strict`, also when a stricter check failed) or when
everything was skipped, and 2 when the suite could not run.
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
# After this many consecutive checks without any answer the rest is skipped.
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
    strict: bool = False,
    tries: int = 1,
    coverage: bool = False,
    verbose: bool = False,
    output: TextIO | None = None,
) -> int:
    """Test the server at `url` and return an exit code.

    `only` and `skip` name groups (`closure`, `producers`, `live`, `stricter`, ...), `rules` rule
    numbers. `report` is one of json, junit, html or several of them; a report is written to
    `report_path`, by default `conformance-server.{json,xml,html}` in the current directory.
    `strict` makes failures of stricter checks count, `tries` runs a failing check again.
    `coverage` prints which rules have no check; with `url=None` nothing else happens.
    Lists may also be given as one string with commas.
    """
    console = Console(output or sys.stdout, verbose=verbose)
    try:
        wanted = reports.chosen(report)
        checks = discover(words(only), words(skip), words(rules))
    except ModuleNotFoundError as error:
        console.error(f"{error}: pip install 'millstream[conformance]'")
        return 2
    except ValueError as error:
        console.error(str(error))
        return 2
    if coverage:
        console.write(coverage_text(discover()))
    if url is None:
        return 0
    try:
        suite = Suite(url, restart_command=restart_command, tries=tries)
    except (ValueError, AssertionError) as error:
        console.error(str(error))
        return 2
    run = _run(suite, checks, console, strict=strict)
    for path in reports.write(run, wanted, report_path):
        console.write(f"report: {path}")
    return 0 if run.ok else 1


def run_checks(
    url: str, checks: Sequence[Check], *, restart_command: str | None = None, tries: int = 1
) -> Run:
    """Run the given checks and return every result as data."""
    return _run(Suite(url, restart_command=restart_command, tries=tries), checks, None, strict=False)


def _run(suite: Suite, checks: Sequence[Check], console: Console | None, *, strict: bool) -> Run:
    started = time.perf_counter()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    run = Run(suite.address.url, suite.offers, started_at=now, strict=strict)
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
    """The results in order. When the server stops answering, the rest is skipped."""
    suite.start(checks)
    silent = 0
    for check in checks:
        if silent >= MAX_SILENT:
            yield Result(check, "skipped", "the server stopped answering")
            continue
        result = suite.run(check)
        silent = silent + 1 if result.outcome == "failed" and SILENCE in result.message else 0
        yield result
