"""Requests that race each other: whichever wins, the stream stays as it was answered."""

import threading
from collections.abc import Callable

from .processes import Client

APPENDERS = 4


def _together(actions: list[Callable[[], None]]) -> None:
    gate = threading.Barrier(len(actions))
    failures: list[BaseException] = []

    def run(action: Callable[[], None]) -> None:
        try:
            gate.wait()
            action()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Race:
    """Appenders that go on until they are refused, and somebody who gets in their way."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.clients = [Client(port) for _ in range(APPENDERS + 1)]
        self.closed: dict[str, bytes] = {}
        self.deleted: list[str] = []

    def run(self, path: str, end: Callable[[Client], int], refusals: tuple[int, ...]) -> set[bytes]:
        """Append from all sides while `end` ends it; gives what was acknowledged."""
        *appenders, ender = self.clients
        acknowledged: list[list[bytes]] = [[] for _ in appenders]
        assert ender.request("PUT", path)[0] == 201  # type: ignore[index]

        def append(number: int) -> None:
            for count in range(200):
                line = b"%d.%d\n" % (number, count)
                answer = appenders[number].request("POST", path, line)
                assert answer is not None
                if answer[0] in refusals:
                    # Refused once is refused for good.
                    again = appenders[number].request("POST", path, line)
                    assert again is not None
                    assert again[0] in refusals, again
                    return
                assert answer[0] == 204, answer
                acknowledged[number].append(line)

        def finish() -> None:
            status = end(ender)
            assert status == 204, status

        _together([*(lambda n=n: append(n) for n in range(APPENDERS)), finish])
        return {line for lines in acknowledged for line in lines}

    def close_race(self, path: str) -> None:
        acknowledged = self.run(path, lambda client: self._close(client, path), (409,))
        status, data, closed = self.clients[0].read_all(path)
        lines = data.splitlines(keepends=True)
        assert (status, closed) == (200, True)
        assert lines[-1] == b"end\n", lines[-3:]
        assert set(lines[:-1]) == acknowledged
        assert len(lines) - 1 == len(acknowledged)
        self.closed[path] = data

    @staticmethod
    def _close(client: Client, path: str) -> int:
        answer = client.request("POST", path, b"end\n", {"stream-closed": "true"})
        assert answer is not None
        return answer[0]

    def delete_race(self, path: str) -> None:
        self.run(path, lambda client: self._delete(client, path), (404,))
        assert self.clients[0].read_all(path)[0] == 404
        self.deleted.append(path)

    @staticmethod
    def _delete(client: Client, path: str) -> int:
        answer = client.request("DELETE", path)
        assert answer is not None
        return answer[0]

    def verify(self, port: int) -> None:
        """After a restart it is all the same."""
        client = Client(port)
        for path, data in self.closed.items():
            assert client.read_all(path) == (200, data, True), path
        for path in self.deleted:
            assert client.read_all(path)[0] == 404, path
        client.close()

    def close(self) -> None:
        for client in self.clients:
            client.close()


def race(port: int, rounds: int, *, progress: bool = False) -> Race:
    """Race closes and deletes against appends, so many times each."""
    racing = Race(port)
    try:
        for number in range(rounds):
            racing.close_race(f"/closing/{number}")
            racing.delete_race(f"/deleting/{number}")
            if progress and number % 100 == 99:
                print(f"  {number + 1} races of each kind", flush=True)
    finally:
        racing.close()
    return racing
