"""Clients that write down their answers, and what a server must therefore still have.

Each writer has streams of its own and knows all that can be in them: what was acknowledged must be there,
what was not may be there, once and whole, and in between nothing may be missing.

        Producer     appends numbered lines, and repeats each until it is acknowledged
        Appender     appends numbered lines, and never repeats one: some are never heard of again
        Stager       stages batches of parts and commits each as one append, as a producer
        Founder      creates streams, closes some, deletes some
        Reader       reads what the producers write: what was read must never go away
        Keeper       appends to a stream that keeps its newest bytes: those are there, the others stay gone
"""

import copy
import json
import random
import threading
import time
from dataclasses import dataclass, field

from .processes import Client

RETRY_S = 0.01


class Worker:
    """A client that works in a thread until it is stopped."""

    def __init__(self, port: int, name: str) -> None:
        self.client = Client(port)
        self.name = name
        self.stopping = False
        self._thread = threading.Thread(target=self._work, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping = True

    def join(self) -> None:
        self._thread.join()
        self.client.close()

    def _work(self) -> None:
        while not self.stopping:
            self.work()

    def work(self) -> None:
        raise NotImplementedError

    def verify(self, client: Client) -> list[str]:
        """Say what is wrong."""
        raise NotImplementedError

    def snapshot(self) -> "Worker":
        """What this one knows now; the server stands still, so that nothing is learned meanwhile."""
        twin = copy.copy(self)
        while True:
            try:
                known = {k: copy.deepcopy(v) for k, v in self.__dict__.items() if _is_knowledge(v)}
            except RuntimeError:  # an answer that was on its way has just changed it
                continue
            twin.__dict__.update(known)
            return twin


def _is_knowledge(value: object) -> bool:
    return isinstance(value, int | str | set | dict)


class Producer(Worker):
    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        self.created = False
        self.acknowledged = 0
        self.offset = ""

    def work(self) -> None:
        if not self.created:
            answer = self.client.request("PUT", self.name)
            self.created = answer is not None and answer[0] in (200, 201)
            if not self.created:
                time.sleep(RETRY_S)
            return
        stamp = {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(self.acknowledged)}
        answer = self.client.request("POST", self.name, b"%08d\n" % self.acknowledged, stamp)
        if answer is not None and answer[0] in (200, 204):
            offset = answer[1]["stream-next-offset"]
            assert offset > self.offset, f"{self.name}: offset {offset} after {self.offset}"
            self.offset = offset
            self.acknowledged += 1
        elif answer is not None and answer[0] not in (503, 507):
            raise AssertionError(f"{self.name}: {answer}")
        else:
            time.sleep(RETRY_S)

    def verify(self, client: Client) -> list[str]:
        status, data, _ = client.read_all(self.name)
        if status != 200:
            return [f"{self.name}: {status}"] if self.created else []
        lines = data.split(b"\n")[:-1]
        expected = [b"%08d" % number for number in range(len(lines))]
        if lines != expected or not self.acknowledged <= len(lines) <= self.acknowledged + 1:
            return [f"{self.name}: {len(lines)} lines, {self.acknowledged} acknowledged, or not in order"]
        return []


class Appender(Worker):
    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        self.created = False
        self.next = 0
        self.acknowledged: set[int] = set()

    def work(self) -> None:
        if not self.created:
            answer = self.client.request("PUT", self.name)
            self.created = answer is not None and answer[0] in (200, 201)
            if not self.created:
                time.sleep(RETRY_S)
            return
        number, self.next = self.next, self.next + 1
        answer = self.client.request("POST", self.name, b"%08d\n" % number * (1 + number % 20))
        if answer is None or answer[0] in (503, 507):
            time.sleep(RETRY_S)
        elif answer[0] == 204:
            self.acknowledged.add(number)
        else:
            raise AssertionError(f"{self.name}: {answer}")

    def verify(self, client: Client) -> list[str]:
        status, data, _ = client.read_all(self.name)
        if status != 200:
            return [f"{self.name}: {status}"] if self.created else []
        found: list[int] = []
        lines = data.split(b"\n")[:-1]
        while lines:
            number = int(lines[0])
            count = 1 + number % 20
            if lines[:count] != [b"%08d" % number] * count:
                return [f"{self.name}: {number} is not whole"]
            found.append(number)
            del lines[:count]
        wrong = []
        if found != sorted(set(found)):
            wrong.append(f"{self.name}: doubled or out of order")
        if lost := self.acknowledged - set(found):
            wrong.append(f"{self.name}: lost {sorted(lost)[:10]}")
        return wrong


class Stager(Worker):
    """Stages each part and each commit until it is acknowledged; now and then it waits in between."""

    PARTS = 3

    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        self.random = random.Random(name)
        self.created = False
        self.acknowledged = 0  # batches
        self.staged = 0  # parts of the next one

    def work(self) -> None:
        answer = self._next()
        if answer is None or answer[0] in (503, 507):
            time.sleep(RETRY_S)
        elif not self.created:
            assert answer[0] in (200, 201), f"{self.name}: {answer}"
            self.created = True
        elif self.staged < self.PARTS:
            assert answer[0] == 204, f"{self.name}: batch {self.acknowledged}, part {self.staged}: {answer}"
            self.staged += 1
            if self.random.random() < 0.1:
                time.sleep(0.3)  # so that a checkpoint finds it
        else:
            assert answer[0] in (200, 204), f"{self.name}: batch {self.acknowledged}: {answer}"
            self.staged, self.acknowledged = 0, self.acknowledged + 1

    def _next(self) -> tuple[int, dict[str, str], bytes] | None:
        if not self.created:
            return self.client.request("PUT", self.name)
        if self.staged < self.PARTS:
            return self.client.request(
                "POST",
                f"{self.name}?part={self.acknowledged}-{self.staged}",
                self._part(self.acknowledged, self.staged),
            )
        return self._commit(self.client)

    def _commit(self, client: Client) -> tuple[int, dict[str, str], bytes] | None:
        stamp = {"producer-id": "s", "producer-epoch": str(self.acknowledged), "producer-seq": "0"}
        parts = [f"{self.acknowledged}-{part}" for part in range(self.PARTS)]
        return client.request(
            "POST", f"{self.name}?parts=commit", json.dumps({"parts": parts}).encode(), stamp
        )

    def _part(self, batch: int, part: int) -> bytes:
        return b"%08d.%d\n" % (batch, part) * (1 + batch % 30)

    def verify(self, client: Client) -> list[str]:
        status, data, _ = client.read_all(self.name)
        if status != 200:
            return [f"{self.name}: {status}"] if self.created else []
        whole = self._batches(self.acknowledged)
        following = self._batches(self.acknowledged + 1)
        if data not in (whole, following):
            return [f"{self.name}: {len(data)} bytes are not the {self.acknowledged} batches acknowledged"]
        if data == whole and self.staged == self.PARTS:  # they are all there, waiting
            self._commit(client)
            if client.read_all(self.name)[1] != following:
                return [f"{self.name}: parts of batch {self.acknowledged} were lost"]
        return []

    def _batches(self, count: int) -> bytes:
        return b"".join(self._part(batch, part) for batch in range(count) for part in range(self.PARTS))


@dataclass
class Fate:
    """What is known of one stream: each step is asked for, and then known or not."""

    asked: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)


class Founder(Worker):
    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        self.random = random.Random(name)
        self.fates: dict[str, Fate] = {}

    def work(self) -> None:
        path = f"{self.name}/{len(self.fates)}"
        fate = self.fates[path] = Fate()
        plan = self.random.choice((["create"], ["create", "close"], ["create", "delete"], ["create-closed"]))
        for step in plan:
            fate.asked.append(step)
            answer = self._do(step, path)
            if answer is None or answer[0] in (503, 507):
                time.sleep(RETRY_S)
                return
            if answer[0] not in (200, 201, 204):
                raise AssertionError(f"{path} {step}: {answer}")
            fate.known.append(step)
        time.sleep(0.01)  # each is looked at in the end

    def _do(self, step: str, path: str) -> tuple[int, dict[str, str], bytes] | None:
        if step == "create":
            return self.client.request("PUT", path, b"first")
        if step == "create-closed":
            return self.client.request("PUT", path, b"", {"stream-closed": "true"})
        if step == "close":
            return self.client.request("POST", path, b"last", {"stream-closed": "true"})
        return self.client.request("DELETE", path)

    def verify(self, client: Client) -> list[str]:
        wrong = []
        for path, fate in self.fates.items():
            status, data, closed = client.read_all(path)
            found = (status, data, closed)
            if found not in _possible(fate):
                wrong.append(f"{path}: {fate.known} of {fate.asked}, but {found}")
        return wrong


_OUTCOMES = {
    (): (404, b"", False),
    ("create",): (200, b"first", False),
    ("create-closed",): (200, b"", True),
    ("create", "close"): (200, b"firstlast", True),
    ("create", "delete"): (404, b"", False),
}


def _possible(fate: Fate) -> list[tuple[int, bytes, bool]]:
    counts = range(len(fate.known), len(fate.asked) + 1)
    return [_OUTCOMES[tuple(fate.asked[:count])] for count in counts]


class Reader(Worker):
    """Keeps the longest that anybody has read."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        self.seen = 0

    def work(self) -> None:
        answer = self.client.request("GET", f"{self.name}?offset=now")
        if answer is not None and answer[0] == 200:
            self.seen = max(self.seen, int(answer[1]["stream-next-offset"].rpartition("_")[2]))
        time.sleep(0.002)

    def verify(self, client: Client) -> list[str]:
        data = client.read_all(self.name)[1]
        return (
            [f"{self.name}: {self.seen} bytes were seen, {len(data)} are left"]
            if len(data) < self.seen
            else []
        )


class Keeper(Worker):
    KEPT = 100_000
    LINE = b"%08d" + b"." * 3991 + b"\n"

    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        self.created = False
        self.next = 0
        self.earliest = 0
        self.acknowledged: set[int] = set()

    def work(self) -> None:
        if not self.created:
            limit = {"stream-retain-bytes": str(self.KEPT)}
            answer = self.client.request("PUT", self.name, b"", limit)
            self.created = answer is not None and answer[0] in (200, 201)
            if not self.created:
                time.sleep(RETRY_S)
            return
        number, self.next = self.next, self.next + 1
        answer = self.client.request("POST", self.name, self.LINE % number)
        if answer is None or answer[0] in (503, 507):
            time.sleep(RETRY_S)
        elif answer[0] == 204:
            self.acknowledged.add(number)
        else:
            raise AssertionError(f"{self.name}: {answer}")
        if number % 10 == 0 and (earliest := self._begins(self.client)) is not None:
            assert earliest >= self.earliest, (
                f"{self.name}: begins at {earliest}, and at {self.earliest} before"
            )
            self.earliest = earliest

    def _begins(self, client: Client) -> int | None:
        answer = client.request("HEAD", self.name)
        if answer is None or answer[0] != 200:
            return None
        return int(answer[1]["stream-earliest-offset"].rpartition("_")[2])

    def verify(self, client: Client) -> list[str]:
        begins = self._begins(client)
        status, data, _ = client.read_all(self.name)
        if status != 200 or begins is None:
            return [f"{self.name}: {status}"] if self.created else []
        lines = data.splitlines(keepends=True)
        found = [int(line[:8]) for line in lines]
        wrong = []
        if lines != [self.LINE % number for number in found] or found != sorted(set(found)):
            wrong.append(f"{self.name}: not whole, or doubled, or out of order")
        if begins < self.earliest or len(data) < min(self.KEPT, begins + len(data)):
            wrong.append(f"{self.name}: {len(data)} bytes from {begins}, and began at {self.earliest}")
        must = {number for number in self.acknowledged if number >= min(found, default=0)}
        if lost := must - set(found):
            wrong.append(f"{self.name}: lost {sorted(lost)[:10]}")
        return wrong


class Ledger:
    """All of them together."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.workers: list[Worker] = [
            Producer(port, "/producer/0"),
            Producer(port, "/producer/1"),
            Appender(port, "/appender/0"),
            Stager(port, "/stager/0"),
            Founder(port, "/founder/0"),
            Reader(port, "/producer/0"),
            Keeper(port, "/keeper/0"),
        ]

    def __enter__(self) -> "Ledger":
        for worker in self.workers:
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        for worker in self.workers:
            worker.join()

    def snapshot(self) -> "Ledger":
        """What is known now."""
        twin = copy.copy(self)
        twin.workers = [worker.snapshot() for worker in self.workers]
        return twin

    def verify(self, port: int | None = None) -> list[str]:
        """Ask a server for everything that it must have; gives what is wrong."""
        client = Client(port or self.port)
        try:
            return [wrong for worker in self.workers for wrong in worker.verify(client)]
        finally:
            client.close()

    def counts(self) -> str:
        produced = sum(worker.acknowledged for worker in self.workers if isinstance(worker, Producer))
        appended = sum(len(worker.acknowledged) for worker in self.workers if isinstance(worker, Appender))
        staged = sum(worker.acknowledged for worker in self.workers if isinstance(worker, Stager))
        founded = sum(len(worker.fates) for worker in self.workers if isinstance(worker, Founder))
        return f"{produced} produced, {appended} appended, {staged} committed in parts, {founded} streams"
