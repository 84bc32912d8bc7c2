"""A run of checks against one server.

Most checks take milliseconds and run one after another. Those marked `patient` (a TTL must pass, a
long-poll must time out) start first, in their own threads, and are collected in order: their waits
overlap and the suite stays short. Checks that span a restart are driven to their `yield` together,
so the server is restarted once.

Each check is run once, unless `tries` says otherwise: on a busy machine a correct server can miss a
deadline. A result says how many tries it took.
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
RESTART_TIMEOUT_S = 30.0


class Suite:
    """Everything that the checks of one run share."""

    def __init__(
        self,
        url: str,
        *,
        restart_command: str | None = None,
        offers: Offers | None = None,
        tries: int = 1,
    ) -> None:
        self.address = Address(url)
        self.pool = Pool(self.address)
        self.invariants = Invariants()
        self.run_id = secrets.token_hex(4)
        self.restart_command = restart_command
        self.tries = tries
        self.offers = offers or detect(self.server("probe"), can_restart=bool(restart_command))
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: dict[str, Future[Attempt]] = {}
        self._restart_checks: list[Check] = []
        self._halfway: dict[str, Halfway] | None = None

    def server(self, label: str) -> Server:
        """The server as one check sees it: fresh paths, an empty transcript."""
        root = self.offers.control_root if hasattr(self, "offers") else ""
        return Server(self.pool, run_id=self.run_id, label=label, standing=self.invariants, control_root=root)

    def start(self, checks: Iterable[Check]) -> None:
        """Start the patient checks, and note which ones span a restart."""
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
        return self._attempts(check).result()

    def close(self) -> None:
        """Stop threads and close sockets."""
        if self._threads:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self.pool.close()

    def _attempt(self, check: Check) -> Attempt:
        server = self.server(label(check))
        return Attempt(check, server, lambda: check.run(server))

    def _attempts(self, check: Check) -> Attempt:
        """Run a check until it does not fail or there are no tries left."""
        first = attempt = self._attempt(check)
        while attempt.failed and attempt.tries < self.tries:
            tries = attempt.tries + 1
            attempt = self._attempt(check)
            attempt.tries, attempt.first = tries, first
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
    """A check that was run. Its error is kept, and explained only when the result is needed.

    Explaining parses source code, which CPython 3.11 cannot do in two threads at once, so it is
    left to the thread that collects the results.
    """

    def __init__(self, check: Check, server: Server, work: Callable[[], Any]) -> None:
        self.check = check
        self.error: Exception | None = None
        self.tries = 1
        self.first: Attempt | None = None
        started = time.perf_counter()
        try:
            work()
        except Exception as error:  # any exception is a failure of this check
            self.error = error
        self._elapsed_s = time.perf_counter() - started
        self._exchange = server.transcript.render() if self.error else ""

    @property
    def failed(self) -> bool:
        """Whether it ran and failed."""
        return self.error is not None and not isinstance(self.error, unittest.SkipTest)

    def result(self) -> Result:
        """The outcome as data; one that passed on a further try carries the message of the first."""
        if self.error is None:
            message = f"the first try failed:\n{self.first.result().message}" if self.first else ""
            return Result(self.check, "passed", message, elapsed_s=self._elapsed_s, tries=self.tries)
        if isinstance(self.error, unittest.SkipTest):
            return Result(self.check, "skipped", str(self.error), elapsed_s=self._elapsed_s)
        return Result(
            self.check, "failed", explain(self.error), self._exchange, self._elapsed_s, tries=self.tries
        )


class Halfway:
    """A check that has run up to the restart."""

    def __init__(self, check: Check, server: Server) -> None:
        self._server = server
        self._steps: Generator[None, None, None] = check.run(server)
        self._before = Attempt(check, server, lambda: next(self._steps))

    def finish(self) -> Attempt:
        """Run the rest, unless the first half failed."""
        if self._before.error:
            return self._before
        return Attempt(self._before.check, self._server, lambda: next(self._steps, None))
