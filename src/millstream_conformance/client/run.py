"""Run the client suite with an adapter: what the command line calls.

Several adapters run side by side, each playing one case after another, because most cases wait
for something. The exit code is 0 when something ran and nothing failed, 1 when something failed,
2 when nothing could be run.
"""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from millstream_conformance import reports
from millstream_conformance.client.adapters import FEATURES, LIMIT_S, Adapter, AdapterError
from millstream_conformance.client.cases import Case, discover
from millstream_conformance.client.playing import Play, StepError, explain
from millstream_conformance.client.rules import RULES
from millstream_conformance.client.servers import ScriptedServer
from millstream_conformance.console import Console
from millstream_conformance.reports import words
from millstream_conformance.results import Result, Run

JOBS = 4
# After this many failures of the adapter itself, with no case passed between, the rest is skipped.
MAX_BROKEN = 4


def run_client_suite(
    command: Sequence[str],
    *,
    only: str | Iterable[str] = (),
    skip: str | Iterable[str] = (),
    report: str | Iterable[str] = (),
    report_path: str | Path | None = None,
    verbose: bool = False,
    jobs: int = JOBS,
    limit_s: float = LIMIT_S,
    output: TextIO | None = None,
) -> int:
    """Judge the client behind the adapter that `command` starts, and return an exit code.

    `only` and `skip` name groups, rules, cases, or `stricter`. `report` is json, junit, html or
    several, written to `report_path`, by default `conformance-client.{json,xml,html}` here.
    `jobs` adapters run at once; each has `limit_s` to answer a command. Everything that can be
    several may also be one string with commas.
    """
    console = Console(output or sys.stdout, verbose=verbose)
    try:
        wanted = reports.chosen(report)
        cases = discover(words(only), words(skip))
        run = run_cases(command, cases, jobs=jobs, limit_s=limit_s, console=console)
    except (ValueError, AdapterError) as error:
        console.complain(str(error))
        return 2
    for path in reports.write(run, wanted, report_path):
        console.write(f"report: {path}")
    return 0 if run.ok else 1


def run_cases(
    command: Sequence[str],
    cases: Sequence[Case],
    *,
    jobs: int = JOBS,
    limit_s: float = LIMIT_S,
    console: Console | None = None,
    stop_at_failure: bool = False,
) -> Run[Case]:
    """Play the given cases and return every result as data; AdapterError when none can be played."""
    started = time.perf_counter()
    server = ScriptedServer()
    company = Company(command, server, limit_s)
    try:
        first = company.hire()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        run: Run[Case] = Run("client", shlex.join(command), RULES, FEATURES, first.features, started_at=now)
        company.dismiss(first)
        if console:
            console.begin(run, len(cases))
        for result in company.play_all(cases, jobs, stop_at_failure=stop_at_failure):
            run.results.append(result)
            if console:
                console.show(result)
            if stop_at_failure and result.outcome == "failed":
                break
    finally:
        company.close()
        server.close()
    run.elapsed_s = time.perf_counter() - started
    run.answers_seen = server.answers_seen
    if console:
        console.end(run)
    return run


class Company:
    """The adapters of a run. One that broke is let go, and another one is started when needed."""

    def __init__(self, command: Sequence[str], server: ScriptedServer, limit_s: float) -> None:
        self._command = command
        self._server = server
        self._limit_s = limit_s
        self._free: list[Adapter] = []
        self._lock = threading.Lock()
        self._broken = 0
        self._stopped = False

    def hire(self) -> Adapter:
        """A free adapter, or a new one."""
        with self._lock:
            if self._free:
                return self._free.pop()
        return Adapter(self._command, self._server.url, limit_s=self._limit_s)

    def dismiss(self, adapter: Adapter) -> None:
        """Take an adapter back, unless it is broken."""
        if adapter.broken:
            adapter.close()
            return
        with self._lock:
            self._free.append(adapter)

    def close(self) -> None:
        """End all adapters."""
        for adapter in self._free:
            adapter.close()

    def play_all(self, cases: Sequence[Case], jobs: int, *, stop_at_failure: bool) -> Iterator[Result[Case]]:
        """The results in the order of the cases."""
        with ThreadPoolExecutor(max(1, jobs), "case") as threads:
            waiting = [
                threads.submit(self._next, case, number, stop_at_failure=stop_at_failure)
                for number, case in enumerate(cases)
            ]
            try:
                for future in waiting:
                    yield future.result()
            finally:
                self._stopped = True

    def _next(self, case: Case, number: int, *, stop_at_failure: bool) -> Result[Case]:
        result = self._play(case, number)
        self._stopped = self._stopped or (stop_at_failure and result.outcome == "failed")
        return result

    def _play(self, case: Case, number: int) -> Result[Case]:
        if self._stopped:
            return Result(case, "skipped", "the run was stopped")
        if self._broken >= MAX_BROKEN:
            return Result(case, "skipped", "the adapter broke too often")
        started = time.perf_counter()
        try:
            adapter = self.hire()
        except AdapterError as error:
            return self._failed(case, str(error), "", started)
        try:
            if missing := [need for need in case.notes.needs if need not in adapter.features]:
                return Result(case, "skipped", f"the client has no {FEATURES[missing[0]]}")
            play = Play(case, adapter, self._server, f"{case.name}-{number}")
            try:
                play.run()
            except StepError as error:
                self._broken = 0
                return Result(
                    case, "failed", str(error), play.scene.transcript(), time.perf_counter() - started
                )
            except AdapterError as error:
                return self._failed(case, explain(error, adapter), play.scene.transcript(), started)
        finally:
            self.dismiss(adapter)
        self._broken = 0
        return Result(case, "passed", elapsed_s=time.perf_counter() - started)

    def _failed(self, case: Case, message: str, exchange: str, started: float) -> Result[Case]:
        self._broken += 1
        return Result(case, "failed", message, exchange, time.perf_counter() - started)
