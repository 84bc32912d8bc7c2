"""Clients that do as a seed tells them, at the same time, and write down what they were told."""

import random
import threading
import time
from collections.abc import Sequence

from crash.processes import Client
from histories.history import TOKEN_BYTES, Kind, Log, Operation, Outcome

_TYPE = {"content-type": "text/plain"}
_RETRIES = 400
_RETRY_S = 0.02


Answer = tuple[int, dict[str, str], bytes]


class Actor:
    """One client: an appender that never repeats, a producer that always does, and a reader in one."""

    def __init__(
        self, ports: Sequence[int], path: str, name: str, seed: str, *, may_close: bool, compares: bool
    ) -> None:
        self.operations: list[Operation] = []
        self._clients = [Client(port) for port in ports]  # of servers that are equal: any may be asked
        self._path = path
        self._name = name
        self._dice = random.Random(seed)
        self._may_close = may_close
        self._compares = compares
        self._count = 0
        self._seq = 0
        self._seen = [0]
        self._tail_seen = 0
        self._closed = False

    def run(self, steps: int) -> None:
        for _ in range(steps):
            kind = self._dice.random()
            if kind < 0.45:
                self._compare_and_append() if self._compares else self._append()
            elif kind < 0.65:
                self._produce()
            elif kind < 0.85:
                self._read()
            elif kind < 0.99 or not self._may_close:
                self._tail()
            else:
                self._close()
        for client in self._clients:
            client.close()

    def _token(self) -> bytes:
        self._count += 1
        return f"{self._name}{self._count:05d};".encode().rjust(TOKEN_BYTES, b"_")

    def _ask(
        self, method: str, query: str = "", body: bytes = b"", **headers: str
    ) -> tuple[Answer | None, float, float]:
        begun_s = time.monotonic()
        fields = {**_TYPE, **{name.replace("_", "-"): value for name, value in headers.items()}}
        client = self._dice.choice(self._clients) if len(self._clients) > 1 else self._clients[0]
        answer = client.request(method, self._path + query, body, fields)
        return answer, begun_s, time.monotonic()

    def _note(self, kind: Kind, begun_s: float, ended_s: float, outcome: Outcome, **facts: object) -> None:
        self.operations.append(Operation(self._name, kind, begun_s, ended_s, outcome, **facts))  # type: ignore[arg-type]

    def _append(self) -> None:
        token = self._token()
        answer, begun_s, ended_s = self._ask("POST", body=token)
        outcome, end = _outcome(answer)
        self._note(Kind.APPEND, begun_s, ended_s, outcome, token=token, end=end)
        if outcome is Outcome.UNKNOWN:
            time.sleep(_RETRY_S)

    @staticmethod
    def _refused(answer: Answer | None, expected: int | None) -> tuple[int, int | None]:
        """Give the tail of a conflict; a closed stream has not looked at what was expected."""
        if answer is None or "stream-closed" in answer[1]:
            return 0, None
        return _position(answer[1]["stream-next-offset"]), expected

    def _compare_and_append(self) -> None:
        """Append where the stream was last seen to end (X6): once, whatever comes of it."""
        token, expected = self._token(), self._tail_seen
        at = _offset(expected)
        answer, begun_s, ended_s = self._ask("POST", body=token, stream_expected_offset=at)
        outcome, end = _outcome(answer)
        if outcome is Outcome.REFUSED:
            end, told = self._refused(answer, expected)
        else:
            told = expected
        self._note(Kind.APPEND, begun_s, ended_s, outcome, token=token, end=end, expected=told)
        self._tail_seen = max(self._tail_seen, end)
        if outcome is Outcome.UNKNOWN:
            time.sleep(_RETRY_S)

    def _produce(self) -> None:
        """Append as a producer: again and again until there is an answer."""
        if self._closed:
            return
        token = self._token()
        stamp = {"producer_id": self._name, "producer_epoch": "0", "producer_seq": str(self._seq)}
        expected = self._tail_seen if self._compares else None
        if expected is not None:
            stamp["stream_expected_offset"] = _offset(expected)
        for _ in range(_RETRIES):
            answer, begun_s, ended_s = self._ask("POST", body=token, **stamp)
            outcome, end = _outcome(answer)
            if outcome is Outcome.REFUSED:
                end, expected = self._refused(answer, expected)
            self._tail_seen = max(self._tail_seen, end)
            self._note(
                Kind.APPEND,
                begun_s,
                ended_s,
                outcome,
                token=token,
                end=end,
                producer=self._name,
                seq=self._seq,
                expected=expected,
            )
            if outcome is Outcome.DONE:
                self._seq += 1
                return
            if outcome is Outcome.REFUSED:
                self._closed = expected is None  # without a conflict, nothing else is a reason to refuse it
                return
            time.sleep(_RETRY_S)
        raise AssertionError(f"{self._name} has waited for too long")

    def _read(self) -> None:
        start = self._dice.choice(self._seen)
        answer, begun_s, ended_s = self._ask("GET", f"?offset={_offset(start)}")
        if answer is not None and answer[0] == 200:
            end = _position(answer[1]["stream-next-offset"])
            self._seen.append(end)
            self._tail_seen = max(self._tail_seen, end)
            self._note(Kind.READ, begun_s, ended_s, Outcome.DONE, start=start, end=end, data=answer[2])

    def _tail(self) -> None:
        answer, begun_s, ended_s = self._ask("HEAD")
        outcome, end = _outcome(answer)
        self._tail_seen = max(self._tail_seen, end)
        self._note(Kind.TAIL, begun_s, ended_s, outcome, end=end)

    def _close(self) -> None:
        answer, begun_s, ended_s = self._ask("POST", stream_closed="true")
        outcome, end = _outcome(answer)
        self._note(Kind.CLOSE, begun_s, ended_s, outcome, end=end)


def create(port: int, path: str) -> None:
    """Make the stream that a history is about."""
    client = Client(port)
    answer = client.request("PUT", path, headers=_TYPE)
    client.close()
    assert answer is not None, "the server is gone"
    assert answer[0] == 201


def play(
    ports: Sequence[int], path: str, seed: int, *, clients: int, steps: int, compares: bool = False
) -> list[Operation]:
    """Let clients loose on a stream, and give what they did."""
    actors = [
        Actor(
            ports,
            path,
            chr(ord("a") + number),
            f"{seed}/{number}",
            may_close=seed % 3 == 0,
            compares=compares,
        )
        for number in range(clients)
    ]
    failures: list[BaseException] = []

    def run(actor: Actor) -> None:
        try:
            actor.run(steps)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(actor,)) for actor in actors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [operation for actor in actors for operation in actor.operations]


def final_log(port: int, path: str) -> Log:
    """Read what the stream is at the end."""
    client = Client(port)
    try:
        status, data, closed = client.read_all(path)
    finally:
        client.close()
    assert status == 200
    return Log(data, closed)


def _outcome(answer: Answer | None) -> tuple[Outcome, int]:
    if answer is None or answer[0] >= 500:
        return Outcome.UNKNOWN, 0
    if answer[0] >= 400:
        return Outcome.REFUSED, 0
    return Outcome.DONE, _position(answer[1]["stream-next-offset"])


def _position(offset: str) -> int:
    return int(offset.replace("_", ""))


def _offset(position: int) -> str:
    digits = f"{position:032d}"
    return f"{digits[:16]}_{digits[16:]}"
