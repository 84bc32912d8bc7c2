"""Worker processes that are killed at random, and in the long form the server, too (rules S1, S4).

Four processes work for four subscriptions over a hundred streams, while messages are appended. What the
handlers did is in a ledger (see `pulling_program`). At the end it shows:

- at least once: every message of every stream was given to a handler that returned
- in order: no handler was given a message before all those before it had been given to some handler
- one at a time: two handlers of one stream never ran at once, as far as both had the lease for sure

The lease of a worker that was killed has to run out before anybody else has its streams; so the last is about
every pair of calls, of the dead ones too, whose calls are cut at the moment they could last have run.
"""

import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from crash.processes import kill, serving, start
from millstream import DurableStream, Retry
from millstream.subscriptions import Subscriptions
from running import Server, announced, free_port

PROGRAM = str(Path(__file__).with_name("pulling_program.py"))
SUBSCRIPTIONS = 4
STREAMS = 100
WORKERS = 4
LEASE_MS = 1000
END_S = 90
PATIENT = Retry(initial_delay_s=0.02, max_delay_s=0.2, max_total_s=60)


@dataclass
class Call:
    """One call of a handler, for as long as its lease was good for sure."""

    worker: str
    path: str
    first: int
    last: int
    begun_s: float
    until_s: float
    has_returned: bool = False
    was_lost: bool = False


class Pool:
    """Worker processes, each killed and replaced by another."""

    def __init__(self, url: str, ledger: Path, subscriptions: list[str]) -> None:
        self._command = [sys.executable, PROGRAM, url, str(ledger)]
        self._folder = ledger.parent
        self._subscriptions = subscriptions
        self._started = 0
        self.killed_s: dict[str, float] = {}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        for _ in range(WORKERS):
            self.start()

    def start(self) -> None:
        name = f"w{self._started}"
        self._started += 1
        command = [*self._command, name, *self._subscriptions]
        with self._errors_of(name).open("w") as errors:
            self.processes[name] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def _errors_of(self, name: str) -> Path:
        return self._folder / f"{name}.errors"

    def wait(self) -> None:
        """Wait until all work."""
        for process in self.processes.values():
            assert process.stdout is not None
            if not process.stdout.closed:
                assert process.stdout.readline() == "ready\n"
                process.stdout.close()

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        self.killed_s[name] = time.monotonic()
        if process.stdout is not None:
            process.stdout.close()

    def check(self) -> None:
        codes = {name: process.poll() for name, process in self.processes.items()}
        ended = [
            (name, code, self._errors_of(name).read_text()[-2000:])
            for name, code in codes.items()
            if code is not None
        ]
        assert not ended, f"these workers have ended by themselves: {ended}"


def work_through_kills(folder: Path, kills: int, seed: int, *, kills_server: bool = False) -> str:
    """Kill workers at random while messages come; gives a summary, or raises."""
    dice = random.Random(seed)
    ledger, port = folder / "ledger", free_port()
    ledger.touch()
    paths = [f"work/{number % SUBSCRIPTIONS}/s{number}" for number in range(STREAMS)]
    appended = dict.fromkeys(paths, 0)
    with serving(folder / "data", port) as first:
        server: Server = first
        pool, streams = _prepare(server.url, ledger, paths)
        try:
            pool.wait()
            for number in range(kills):
                _append(dice, streams, appended, messages=STREAMS)
                victim = _at_work(ledger, pool) or dice.choice(list(pool.processes))
                if kills_server and number % 5 == 4:
                    kill(server)
                    server = _started(folder, port)
                pool.check()
                pool.kill(victim)
                pool.start()
            _append(dice, streams, appended, messages=STREAMS)
            pool.wait()
            _wait_for(ledger, appended, pool)
        finally:
            for name in list(pool.processes):
                pool.kill(name)
            if server is not first:
                server.stop()
    calls = read_ledger(ledger, pool.killed_s)
    check_calls(calls, appended)
    total = sum(appended.values())
    given = sum(call.last - call.first + 1 for call in calls)
    return f"{kills} kills, {total} messages, {given - total} given again, in order, one worker at a time"


def _prepare(url: str, ledger: Path, paths: list[str]) -> tuple[Pool, dict[str, DurableStream]]:
    subscriptions = Subscriptions(url)
    ids = [f"work-{number}" for number in range(SUBSCRIPTIONS)]
    for number, id in enumerate(ids):
        subscriptions.create_pull(id, "wake/all", pattern=f"work/{number}/**", lease_ttl_ms=LEASE_MS)
    streams = {
        path: DurableStream.create(f"{url}/{path}", content_type="application/json", retry=PATIENT)
        for path in paths
    }
    return Pool(url, ledger, ids), streams


def _started(folder: Path, port: int) -> Server:
    server = start(folder / "data", port)
    announced(server)
    return server


def _append(
    dice: random.Random, streams: dict[str, DurableStream], appended: dict[str, int], messages: int
) -> None:
    for path in dice.sample(list(streams), k=max(1, messages // 4)):
        some = dice.randint(1, 4)
        streams[path].append_all([{"n": appended[path] + one} for one in range(some)])
        appended[path] += some


def _at_work(ledger: Path, pool: Pool) -> str | None:
    """Find a worker that is in the middle of a call, which is the one to kill."""
    deadline = time.monotonic() + LEASE_MS / 500
    while time.monotonic() < deadline:
        for call in reversed(read_ledger(ledger, pool.killed_s)):
            if not call.has_returned and call.worker in pool.processes:
                return call.worker
        time.sleep(0.005)
    return None


def _wait_for(ledger: Path, appended: dict[str, int], pool: Pool) -> None:
    """Wait until everything was handled; the checks come later."""
    deadline = time.monotonic() + END_S
    while True:
        done = {path: 0 for path, count in appended.items() if count}
        for call in read_ledger(ledger, pool.killed_s):
            if call.has_returned and not call.was_lost:
                done[call.path] = max(done[call.path], call.last + 1)
        missing = {path: (count, appended[path]) for path, count in done.items() if count < appended[path]}
        if not missing:
            return
        pool.check()
        assert time.monotonic() < deadline, f"not handled within {END_S} s: {missing}"
        time.sleep(0.1)


def read_ledger(ledger: Path, killed_s: dict[str, float]) -> list[Call]:
    """Read the calls in the order in which they began."""
    calls: dict[tuple[str, str], Call] = {}
    for line in ledger.read_text().splitlines():
        kind, worker, number, *rest = line.split(" ")
        if kind == "begin":
            path, first, last, begun_s, until_s = rest
            end_s = min(float(until_s), killed_s.get(worker, float("inf")))
            calls[worker, number] = Call(worker, path, int(first), int(last), float(begun_s), end_s)
        else:
            call = calls[worker, number]
            call.has_returned, call.was_lost = True, rest[1] == "1"
            # Not lost when it returned: then it had the lease all the time.
            call.until_s = min(call.until_s, float(rest[0])) if call.was_lost else float(rest[0])
    return sorted(calls.values(), key=lambda call: call.begun_s)


def check_calls(calls: list[Call], appended: dict[str, int]) -> None:
    """Check that nothing was left out, passed over, or handled by two at a time."""
    given = dict.fromkeys(appended, 0)
    returned = dict.fromkeys(appended, 0)
    busy: dict[str, Call] = {}
    for call in calls:
        assert call.first <= given[call.path], f"{call} came before number {given[call.path]}"
        given[call.path] = max(given[call.path], call.last + 1)
        if call.has_returned:
            assert call.first <= returned[call.path], f"{call}: nobody has finished {returned[call.path]}"
            returned[call.path] = max(returned[call.path], call.last + 1)
        before = busy.get(call.path)
        if before is not None and before.worker != call.worker:
            assert before.until_s <= call.begun_s, f"two at a time: {before} and {call}"
        if before is None or call.until_s >= before.until_s:
            busy[call.path] = call
    assert returned == appended, "not everything was handled"
