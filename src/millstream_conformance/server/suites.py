"""A run of checks against one server.

Most checks answer in milliseconds and run one after another. Those marked `patient` (a TTL must
pass, a long-poll must time out) start first, in threads of their own, and are collected when
their turn comes: their waits overlap and the suite stays short. They go by the clock, so a machine
that was busy for a moment can fail them: one that fails is tried again, and a server that is wrong
fails each time. Checks that span a restart are driven to their `yield` together, so the server is
restarted once.
"""

from __future__ import annotations

import secrets
import subprocess
import time
import unittest
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from millstream_conformance.server.checks import Check
from millstream_conformance.server.connections import Address, Pool
from millstream_conformance.server.explain import explain
from millstream_conformance.server.invariants import Invariants
from millstream_conformance.server.offers import DESCRIPTIONS, Offers, detect
from millstream_conformance.server.results import Result
from millstream_conformance.server.servers import Server

PATIENT_THREADS = 24
PATIENT_TRIES = 3
RESTART_TIMEOUT_S = 30.0


class Suite:
    """Everything that the checks of one run share."""

    def __init__(
        self,
        url: str,
        *,
        restart_command: str | None = None,
        offers: Offers | None = None,
        patient_tries: int = PATIENT_TRIES,
    ) -> None:
        self.address = Address(url)
        self.pool = Pool(self.address)
        self.invariants = Invariants()
        self.run_id = secrets.token_hex(4)
        self.restart_command = restart_command
        self.patient_tries = patient_tries
        self.offers = offers or detect(self.server("probe"), can_restart=bool(restart_command))
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: dict[str, Future[Attempt]] = {}
        self._restart_checks: list[Check] = []
        self._halfway: dict[str, Halfway] | None = None

    def server(self, label: str) -> Server:
        """A fresh view of the server for one check."""
        root = self.offers.control_root if hasattr(self, "offers") else ""
        return Server(self.pool, run_id=self.run_id, label=label, standing=self.invariants, control_root=root)

    def start(self, checks: Iterable[Check]) -> None:
        """Start what waits, and bring restart checks to the point of the restart."""
        ready = [check for check in checks if not self.offers.missing(check.notes.needs)]
        patient = [check for check in ready if check.notes.patient]
        if patient:
            self._threads = ThreadPoolExecutor(min(PATIENT_THREADS, len(patient)), "patient")
            self._waiting = {check.id: self._threads.submit(self._attempts, check) for check in patient}
        self._restart_checks = [check for check in ready if check.notes.restart]

    def run(self, check: Check) -> Result:
        """The result of one check, running it now unless it already runs."""
        if missing := self.offers.missing(check.notes.needs):
            return Result(check, "skipped", f"the server has no {DESCRIPTIONS[missing[0]]}")
        if check.id in self._waiting:
            return self._waiting[check.id].result().result()
        if check.notes.restart:
            return self._after_restart(check).result()
        return self._attempt(check).result()

    def close(self) -> None:
        """Let go of threads and sockets."""
        if self._threads:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self.pool.close()

    def _attempt(self, check: Check) -> Attempt:
        server = self.server(label(check))
        return Attempt(check, server, lambda: check.run(server))

    def _attempts(self, check: Check) -> Attempt:
        """Try a check until it does not fail, or has failed often enough."""
        attempt = self._attempt(check)
        for _ in range(self.patient_tries - 1):
            if not attempt.failed:
                break
            again = self._attempt(check)
            again.before = attempt
            attempt = again
        return attempt

    def _after_restart(self, check: Check) -> Attempt:
        if self._halfway is None:
            chosen = self._restart_checks
            self._halfway = {each.id: Halfway(each, self.server(label(each))) for each in chosen}
            self._restarted = Attempt(check, self.server("restart"), self._restart)
        return self._restarted if self._restarted.error else self._halfway[check.id].finish()

    def _restart(self) -> None:
        """Run the restart command and wait until the server answers again."""
        assert self.restart_command
        self.pool.drain()
        subprocess.run(self.restart_command, shell=True, check=True, timeout=RESTART_TIMEOUT_S)
        deadline = time.monotonic() + RESTART_TIMEOUT_S
        server = self.server("restart")
        while True:
            try:
                server.request("OPTIONS", server.path())
            except (AssertionError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return


def label(check: Check) -> str:
    """A short name for the paths that a check uses."""
    return check.name.replace("_", "-")[:40]


class Attempt:
    """A check that was run. What went wrong is kept, and explained only when it is asked for.

    Explaining parses source code, which CPython 3.11 cannot do in two threads at once, so it is
    left to the thread that collects the results.
    """

    def __init__(self, check: Check, server: Server, work: Callable[[], Any]) -> None:
        self.check = check
        self.error: Exception | None = None
        self.before: Attempt | None = None
        started = time.perf_counter()
        try:
            work()
        except Exception as error:  # whatever went wrong is this check's failure
            self.error = error
        self._elapsed_s = time.perf_counter() - started
        self._exchange = server.transcript.render() if self.error else ""

    @property
    def failed(self) -> bool:
        """Whether it was run, and went wrong."""
        return self.error is not None and not isinstance(self.error, unittest.SkipTest)

    def result(self) -> Result:
        """The outcome in words; one that passed in the end says what was wrong before."""
        if self.error is None:
            before = f"passed when tried again\n{self.before.result().message}" if self.before else ""
            return Result(self.check, "passed", before, elapsed_s=self._elapsed_s)
        if isinstance(self.error, unittest.SkipTest):
            return Result(self.check, "skipped", str(self.error), elapsed_s=self._elapsed_s)
        return Result(self.check, "failed", explain(self.error), self._exchange, self._elapsed_s)


class Halfway:
    """A check that has done what comes before the restart."""

    def __init__(self, check: Check, server: Server) -> None:
        self._server = server
        self._steps: Generator[None, None, None] = check.run(server)
        self._before = Attempt(check, server, lambda: next(self._steps))

    def finish(self) -> Attempt:
        """Do the rest, unless the first half already failed."""
        if self._before.error:
            return self._before
        return Attempt(self._before.check, self._server, lambda: next(self._steps, None))
