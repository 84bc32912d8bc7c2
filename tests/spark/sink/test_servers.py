"""Servers that require a token, have no parts, refuse, or cannot be reached for a while."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from pyspark.errors import PySparkException

from running import Server, millstream
from spark.queries import TIMEOUT_S, Streams
from spark.sink.sinks import Sinks

SECRET = "a secret of thirty-two characters"


@pytest.fixture
def guarded(sinks: Sinks, tmp_path: Path) -> Iterator[Sinks]:
    with millstream("--auth-secret", SECRET) as server:
        yield Sinks(Streams(sinks.spark, server.url, "guarded"), tmp_path)


@pytest.fixture
def reference(reference_streams: Streams, tmp_path: Path) -> Sinks:
    return Sinks(reference_streams, tmp_path)


def test_a_token_allows_writing(guarded: Sinks) -> None:
    token = jwt.encode({"scope": "admin"}, SECRET, algorithm="HS256")
    guarded.write(guarded.numbers(10), token=token)
    rows = guarded.streams.batch("out", token=token).count()
    assert rows == 10


def test_without_a_token_the_servers_words_are_in_the_error(guarded: Sinks) -> None:
    with pytest.raises(PySparkException, match="was not written: Not allowed"):
        guarded.write(guarded.numbers(10))


def test_a_token_that_may_only_read_cannot_write(guarded: Sinks) -> None:
    token = jwt.encode({"scope": "read"}, SECRET, algorithm="HS256")
    with pytest.raises(PySparkException, match="was not written: Not allowed"):
        guarded.write(guarded.numbers(10), token=token)


@pytest.mark.node
def test_a_server_without_parts_needs_a_choice(reference: Sinks) -> None:
    with pytest.raises(PySparkException, match="option commit: is missing, and this server has no parts"):
        reference.write(reference.numbers(10))
    with pytest.raises(PySparkException, match="option commit: is parts, which this server does not have"):
        reference.write(reference.numbers(10), commit="parts")


@pytest.mark.node
@pytest.mark.parametrize("commit", ["producer", "driver"])
def test_the_reference_server_takes_repeated_batches_once(reference: Sinks, commit: str) -> None:
    source = reference.streams.create("in", messages=[{"n": n} for n in range(200)])
    options: dict[str, Any] = {"commit": commit, "partBytes": "500"}
    for _ in range(2):
        reference.run(reference.streams.following("in").select("value"), **options)
        reference.forget_last_batch()
    assert sorted(reference.ns()) == list(range(200))
    source.append({"n": 200})
    reference.run(reference.streams.following("in").select("value"), **options)
    assert sorted(reference.ns()) == list(range(201))


def test_a_server_that_is_away_for_a_while_is_waited_for(sinks: Sinks, tmp_path: Path) -> None:
    """The first connection is cut and the next ones are refused; the write is repeated and counts once."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    there = Sinks(Streams(sinks.spark, f"http://127.0.0.1:{port}", "late"), tmp_path)
    written = threading.Event()
    found: list[int] = []

    def serve_late() -> None:
        listener.settimeout(TIMEOUT_S)
        with listener:
            listener.accept()[0].close()
        time.sleep(0.5)  # refused, several times
        with millstream("--port", str(port)):
            assert written.wait(TIMEOUT_S)
            found.extend(there.ns())

    serving = threading.Thread(target=serve_late)
    serving.start()
    try:
        there.write(there.numbers(10), retries=100)
    finally:
        written.set()
        serving.join()
    assert found == list(range(10))


def test_a_server_that_stays_away_fails_the_write(sinks: Sinks, server: Server) -> None:
    with pytest.raises(PySparkException, match="was not written: Could not connect"):
        sinks.write(sinks.numbers(1), url="http://127.0.0.1:9", retries=1)
