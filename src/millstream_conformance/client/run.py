"""Run the client suite with an adapter: what the command line calls.

Several adapters run in parallel, each playing one case after another, because most cases wait for
something. The exit code is 0 when no required case failed, 1 when one did (with `strict`, also when
a stricter case failed) or when everything was skipped, and 2 when the suite could not run.
"""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
# After this many failures of the adapter itself, with no completed case between, the rest is skipped.
MAX_BROKEN = 4


def run_client_suite(
    command: Sequence[str],
    *,
    only: str | Iterable[str] = (),
    skip: str | Iterable[str] = (),
    report: str | Iterable[str] = (),
    report_path: str | Path | None = None,
    strict: bool = False,
    tries: int = 1,
    verbose: bool = False,
    jobs: int = JOBS,
    limit_s: float = LIMIT_S,
    output: TextIO | None = None,
) -> int:
    """Test the client behind the adapter that `command` starts, and return an exit code.

    `only` and `skip` name groups, rules, cases, or `stricter`. `report` is json, junit, html or
    several, written to `report_path`, by default `conformance-client.{json,xml,html}` in the current
    directory. `strict` makes failures of stricter cases count, `tries` plays a failing case again.
    `jobs` adapters run at once; each has `limit_s` to answer a command. Lists may also be given as
    one string with commas.
    """
    console = Console(output or sys.stdout, verbose=verbose)
    try:
        wanted = reports.chosen(report)
        cases = discover(words(only), words(skip))
        run = run_cases(
            command, cases, jobs=jobs, limit_s=limit_s, strict=strict, tries=tries, console=console
        )
    except (ValueError, AdapterError) as error:
        console.error(str(error))
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
    strict: bool = False,
    tries: int = 1,
    console: Console | None = None,
    stop_at_failure: bool = False,
) -> Run[Case]:
    """Play the given cases and return every result as data; AdapterError when none can be played."""
    started = time.perf_counter()
    server = ScriptedServer()
    player = Player(command, server, limit_s, tries=tries, stop_at_failure=stop_at_failure)
    try:
        first = player.acquire()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        run: Run[Case] = Run(
            "client", shlex.join(command), RULES, FEATURES, first.features, started_at=now, strict=strict
        )
        player.release(first)
        if console:
            console.begin(run, len(cases))
        for result in player.play_all(cases, jobs):
            run.results.append(result)
            if console:
                console.show(result)
            if stop_at_failure and result.outcome == "failed":
                break
    finally:
        player.close()
        server.close()
    run.elapsed_s = time.perf_counter() - started
    run.answers_seen = server.answers_seen
    if console:
        console.end(run)
    return run


class Player:
    """Plays cases with a pool of adapters. A broken adapter is ended and replaced when needed."""

    def __init__(
        self,
        command: Sequence[str],
        server: ScriptedServer,
        limit_s: float,
        *,
        tries: int = 1,
        stop_at_failure: bool = False,
    ) -> None:
        self._command = command
        self._server = server
        self._limit_s = limit_s
        self._tries = tries
        self._stop_at_failure = stop_at_failure
        self._free: list[Adapter] = []
        self._lock = threading.Lock()
        self._broken = 0
        self._stopped = False

    def acquire(self) -> Adapter:
        """A free adapter, or a new one."""
        with self._lock:
            if self._free:
                return self._free.pop()
        return Adapter(self._command, self._server.url, limit_s=self._limit_s)

    def release(self, adapter: Adapter) -> None:
        """Return an adapter to the pool, or end it when it is broken."""
        if adapter.broken:
            adapter.close()
            return
        with self._lock:
            self._free.append(adapter)

    def close(self) -> None:
        """End all adapters."""
        for adapter in self._free:
            adapter.close()

    def play_all(self, cases: Sequence[Case], jobs: int) -> Iterator[Result[Case]]:
        """The results in the order of the cases."""
        with ThreadPoolExecutor(max(1, jobs), "case") as threads:
            waiting = [threads.submit(self._play, case, number) for number, case in enumerate(cases)]
            try:
                for future in waiting:
                    yield future.result()
            finally:
                self._stopped = True

    def _play(self, case: Case, number: int) -> Result[Case]:
        """Play a case until it does not fail or there are no tries left."""
        first = result = self._try(case, f"{case.name}-{number}")
        while result.outcome == "failed" and result.tries < self._tries:
            tries = result.tries + 1
            result = replace(self._try(case, f"{case.name}-{number}-{tries}"), tries=tries)
        if result.was_retried:
            result = replace(result, message=f"the first try failed:\n{first.message}")
        self._stopped = self._stopped or (self._stop_at_failure and result.outcome == "failed")
        return result

    def _try(self, case: Case, scene_name: str) -> Result[Case]:
        if self._stopped:
            return Result(case, "skipped", "the run was stopped")
        if self._broken >= MAX_BROKEN:
            return Result(case, "skipped", "the adapter broke too often")
        started = time.perf_counter()
        try:
            adapter = self.acquire()
        except AdapterError as error:
            return self._failed(case, str(error), "", started)
        try:
            if missing := [need for need in case.notes.needs if need not in adapter.features]:
                return Result(case, "skipped", f"the client has no {FEATURES[missing[0]]}")
            play = Play(case, adapter, self._server, scene_name)
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
            self.release(adapter)
        self._broken = 0
        return Result(case, "passed", elapsed_s=time.perf_counter() - started)

    def _failed(self, case: Case, message: str, exchange: str, started: float) -> Result[Case]:
        self._broken += 1
        return Result(case, "failed", message, exchange, time.perf_counter() - started)
