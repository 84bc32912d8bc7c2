"""Following many streams through faults: nothing is lost or doubled, and each stream keeps its order (X9)."""

import random
import threading
import uuid
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

import millstream
from millstream import NotSupportedError, Retry
from python_client.answering_server import AnsweringServer
from python_client.faulty_proxy import FaultyProxy
from running import Server

PATIENT = Retry(initial_delay_s=0.01, max_delay_s=0.1)
STREAMS = 1000
BUSY = 100
MESSAGES = 30


def test_a_thousand_streams_of_which_a_hundred_are_busy(shell: Any, server: Server) -> None:
    """X9: through a proxy that cuts connections, on one connection at a time."""
    root = f"/many/{uuid.uuid4().hex}"
    names = [f"{root}/{number:04}" for number in range(STREAMS)]
    for name in names:
        millstream.DurableStream.create(server.url + name, content_type="application/json")
    busy = random.Random(9).sample(names, BUSY)

    def write() -> None:
        for number in range(MESSAGES):
            for name in busy:
                millstream.DurableStream(server.url + name).append(number)
        for name in names:
            millstream.DurableStream(server.url + name).close()

    writer = threading.Thread(target=write)
    found: dict[str, list[int]] = {name: [] for name in names}
    ended: list[str] = []
    with FaultyProxy(server.url, seed=4, rate=0.2, event_stream_bytes=(100_000, 600_000)) as proxy:
        writer.start()
        for path, batch in shell.follow_many(proxy.url, dict.fromkeys(names, "-1"), retry=PATIENT):
            found[path] += batch.items
            if batch.stream_closed:
                ended.append(path)
        assert proxy.fault_count > 2
        assert proxy.most_event_streams == 1
    writer.join()
    assert {name: messages for name, messages in found.items() if messages} == {
        name: list(range(MESSAGES)) for name in busy
    }
    assert sorted(ended) == names


@pytest.mark.parametrize("seed", range(3))
def test_streams_of_globs_come_and_go(shell: Any, server: Server, seed: int) -> None:
    """X9: streams that are created, filled and closed while a glob is followed and connections are cut."""
    root, chance = f"/globs/{uuid.uuid4().hex}", random.Random(seed)
    expected: dict[str, list[int]] = {}
    names = [f"{root}/{number:03}" for number in range(60)]

    def write() -> None:
        numbers = iter(range(10_000))
        for name in names:
            stream = millstream.DurableStream.create(
                server.url + name, content_type="application/json", body=[first := next(numbers)]
            )
            expected[name] = [first]
            for _ in range(chance.randrange(4)):
                stream.append(number := next(numbers))
                expected[name].append(number)
            if chance.random() < 0.5:
                stream.close()
        millstream.DurableStream.create(server.url + f"{root}/end", content_type="application/json").close(
            "x"
        )

    found: dict[str, list[int]] = {}
    writer = threading.Thread(target=write)
    with FaultyProxy(server.url, seed=seed, rate=0.2, event_stream_bytes=(20_000, 40_000)) as proxy:
        millstream.DurableStream.create(f"{server.url}{root}/first")
        following = shell.follow_many(
            proxy.url, globs=[f"{root}/0*", f"{root}/**"], from_beginning=seed % 2 == 0, retry=PATIENT
        )
        with closing(iter(following)) as batches:
            path, _ = next(batches)
            assert path == f"{root}/first"
            writer.start()
            has_ended = False
            while not has_ended or any(found.get(name) != sent for name, sent in expected.items()):
                path, batch = next(batches)
                found.setdefault(path, []).extend(batch.items)
                has_ended |= path == f"{root}/end" and batch.stream_closed
        assert proxy.fault_count > 2
    writer.join()
    assert {name: found[name] for name in names} == expected


@pytest.mark.parametrize("status", [b"404 Not Found", b"405 Method Not Allowed"])
def test_a_server_without_the_extension_is_named(shell: Any, status: bytes) -> None:
    answer = b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status
    with AnsweringServer(lambda _: answer) as other, pytest.raises(NotSupportedError, match="many streams"):
        list(shell.follow_many(other.url, ["/a"]))


def test_few_streams_are_named_in_the_url_and_many_in_the_body(shell: Any) -> None:
    answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    with AnsweringServer(lambda _: answer) as other:
        for count in (2, 1000):
            with pytest.raises(NotSupportedError):
                list(shell.follow_many(other.url, [f"/{number}" for number in range(count)]))
        short, long = other.seen
    assert (short.method, short.target) == ("GET", "/__ds/events?stream=/0@now&stream=/1@now")
    assert (long.method, urlsplit(long.target).query) == ("POST", "")
    assert long.body.count(b"stream=") == 1000
