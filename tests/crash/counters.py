"""A counter that several programs raise, while they and their server are killed (rule X6)."""

import contextlib
import random
import subprocess
import sys
import threading
from pathlib import Path

from millstream import DurableStream, stream

from .processes import free_port, kill, serving

PROGRAM = Path(__file__).with_name("counting_program.py")
WORKERS = 8


class Workers:
    """The programs. One that was killed is started again, until each has reached its goal."""

    def __init__(self, url: str, goal: int) -> None:
        self._url = url
        self._goal = goal
        self._progress = threading.Condition()
        self._raised = 0
        self._running: dict[int, subprocess.Popen[str]] = {}
        self._failures: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(WORKERS)]
        self.killed = 0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_until(self, raised: int) -> bool:
        """Wait until the counter was raised so often; False when all have ended."""

        def is_there() -> bool:
            return self._raised >= raised or not any(thread.is_alive() for thread in self._threads)

        with self._progress:
            return self._progress.wait_for(is_there, timeout=120) and self._raised >= raised

    def kill_one(self, dice: random.Random) -> None:
        with self._progress:
            if self._running:
                self._running[dice.choice(sorted(self._running))].kill()
                self.killed += 1

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        assert not self._failures, self._failures

    def _run(self, number: int) -> None:
        """Start a program until it ends by itself; every line of its output is one raise."""
        kind = ("sync", "async")[number % 2]
        command = [sys.executable, str(PROGRAM), kind, self._url, f"w{number}", str(self._goal)]
        while True:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            with self._progress:
                self._running[number] = process
            assert process.stdout is not None
            assert process.stderr is not None
            for _ in process.stdout:
                with self._progress:
                    self._raised += 1
                    self._progress.notify_all()
            errors = process.stderr.read()
            code = process.wait()
            process.stdout.close()
            process.stderr.close()
            with self._progress:
                del self._running[number]
                self._progress.notify_all()
            if code >= 0:
                if code:
                    self._failures.append(errors.strip()[-500:])
                return


def count_through_kills(folder: Path, goal: int, *, seed: int, kills: int = 0, progress: bool = False) -> str:
    """Let eight programs raise a counter, each to its goal; kill one of them, or the server, in turn."""
    dice, port = random.Random(seed), free_port()
    kills = kills or max(6, goal // 5)
    url, sum_ = f"http://127.0.0.1:{port}/counter", WORKERS * goal
    moments = sorted(dice.sample(range(1, sum_ * 9 // 10), min(kills, sum_ // 2)))
    workers, server_kills = Workers(url, goal), 0
    with contextlib.ExitStack() as servers:
        server = servers.enter_context(serving(folder, port))
        DurableStream.create(url, content_type="application/json")
        workers.start()
        for number, moment in enumerate(moments):
            if not workers.wait_until(moment):
                break
            if number % 2:
                workers.kill_one(dice)
            else:
                kill(server)
                server = servers.enter_context(serving(folder, port))
                server_kills += 1
            if progress and number % 20 == 19:
                print(f"  {number + 1} kills, {moment} of {sum_}", flush=True)
        workers.join()
        messages = stream(url, live=False).read_json()
    assert [one["total"] for one in messages] == list(range(1, sum_ + 1)), "the sum is not exact"
    for number in range(WORKERS):
        mine = [one["n"] for one in messages if one["worker"] == f"w{number}"]
        assert mine == list(range(1, goal + 1)), f"w{number} has {mine}"
    assert server_kills >= len(moments) // 2
    return (
        f"{WORKERS} programs, {workers.killed} kills of them, {server_kills} of the server: {sum_} is exact"
    )
