"""The conformance adapter as a process: one line in, one line out."""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from running import Server

JSON = "application/json"


class Process:
    """A running adapter."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-W", "error", "-m", "millstream.adapter.commands", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"type": type, **fields}) + "\n")
        self._process.stdin.flush()
        result: dict[str, Any] = json.loads(self._process.stdout.readline())
        return result

    def stop(self) -> int:
        self.ask("shutdown")
        self._process.communicate(timeout=60)
        return self._process.returncode


@pytest.fixture(params=[(), ("--async",)], ids=["sync", "async"])
def adapter(request: pytest.FixtureRequest, server: Server) -> Iterator[Process]:
    process = Process(*request.param)
    hello = process.ask("init", serverUrl=server.url)
    assert hello["success"] is True
    assert hello["features"]["sse"] is True
    yield process
    assert process.stop() == 0


@pytest.fixture
def path() -> str:
    return f"/adapter/{uuid.uuid4()}"


def test_a_stream_lives_and_dies(adapter: Process, path: str) -> None:
    assert adapter.ask("create", path=path, contentType=JSON)["status"] == 201
    assert adapter.ask("create", path=path, contentType=JSON)["status"] == 200
    appended = adapter.ask("append", path=path, data='{"n": 1}')
    assert (appended["success"], appended["status"]) == (True, 200)
    read = adapter.ask("read", path=path)
    assert [chunk["data"] for chunk in read["chunks"]] == ['[{"n":1}]']
    assert (read["offset"], read["upToDate"], read["streamClosed"]) == (appended["offset"], True, False)
    closed = adapter.ask("close", path=path, data='"end"')
    head = adapter.ask("head", path=path)
    assert (head["streamClosed"], head["offset"]) == (True, closed["finalOffset"])
    refused = adapter.ask("append", path=path, data="1")
    assert (refused["success"], refused["errorCode"], refused["status"]) == (False, "STREAM_CLOSED", 409)
    assert adapter.ask("delete", path=path)["success"] is True
    assert adapter.ask("connect", path=path)["errorCode"] == "NOT_FOUND"


@pytest.mark.parametrize("live", ["long-poll", "sse", True])
def test_a_live_read_ends_by_its_timeout(adapter: Process, path: str, live: Any) -> None:
    adapter.ask("create", path=path, contentType="text/plain", data="hello")
    read = adapter.ask("read", path=path, live=live, timeoutMs=300)
    assert (read["success"], read["upToDate"], read["streamClosed"]) == (True, True, False)
    assert [chunk["data"] for chunk in read["chunks"]] == ["hello"]


def test_binary_content_is_told_in_base64(adapter: Process, path: str) -> None:
    adapter.ask("create", path=path)
    adapter.ask("append", path=path, data="/wAB", binary=True)
    for live in (False, "sse"):
        [chunk] = adapter.ask("read", path=path, live=live, waitForUpToDate=True)["chunks"]
        assert (chunk["data"], chunk["binary"]) == ("/wAB", True)


def test_producers_keep_their_numbers(adapter: Process, path: str) -> None:
    adapter.ask("create", path=path, contentType=JSON)
    producer = {"path": path, "producerId": "p", "epoch": 0, "autoClaim": False}
    for number in range(3):
        assert adapter.ask("idempotent-append", data=str(number), **producer)["success"] is True
    batch = {**producer, "producerId": "q", "items": ["3", "4"], "maxInFlight": 3}
    assert adapter.ask("idempotent-append-batch", **batch)["success"] is True
    first = adapter.ask("idempotent-close", data="5", **producer)
    assert first == adapter.ask("idempotent-close", data="5", **producer)
    read = adapter.ask("read", path=path)
    assert (read["chunks"][0]["data"], read["streamClosed"]) == ("[0,1,2,3,4,5]", True)


def test_dynamic_values_are_computed_and_told(adapter: Process, path: str) -> None:
    adapter.ask("create", path=path, contentType="text/plain")
    adapter.ask("set-dynamic-header", name="X-Count", valueType="counter")
    adapter.ask("set-dynamic-param", name="t", valueType="timestamp")
    first, second = (adapter.ask("append", path=path, data="x") for _ in range(2))
    assert (first["headersSent"], second["headersSent"]) == ({"X-Count": "1"}, {"X-Count": "2"})
    assert first["paramsSent"]["t"].isdigit()
    adapter.ask("clear-dynamic")
    assert "headersSent" not in adapter.ask("append", path=path, data="x")


def test_mistakes_are_named(adapter: Process, path: str) -> None:
    adapter.ask("create", path=path)
    assert adapter.ask("read", path=path, offset="bad offset")["errorCode"] == "INVALID_OFFSET"
    assert adapter.ask("read", path=path + "x")["errorCode"] == "NOT_FOUND"
    assert adapter.ask("fly")["errorCode"] == "NOT_SUPPORTED"
    wrong = adapter.ask("validate", target={"target": "idempotent-producer", "maxBatchBytes": 0})
    assert (wrong["errorCode"], "maxBatchBytes" in wrong["message"]) == ("INVALID_ARGUMENT", True)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "append", "size": 100},
        {"op": "read"},
        {"op": "roundtrip", "size": 100, "live": "long-poll"},
        {"op": "roundtrip", "size": 100, "live": "sse", "contentType": JSON},
        {"op": "create"},
        {"op": "throughput_append", "count": 100, "size": 10, "concurrency": 5},
    ],
    ids=str,
)
def test_benchmarks_give_a_duration(adapter: Process, path: str, operation: dict[str, Any]) -> None:
    if operation["op"] in ("append", "read"):
        adapter.ask("create", path=path)
    result = adapter.ask("benchmark", iterationId="1", operation={"path": path, **operation})
    assert int(result["durationNs"]) > 0, result


def test_throughput_is_read_as_messages(adapter: Process, path: str) -> None:
    adapter.ask("create", path=path, contentType=JSON, data="[1,2,3]")
    operation = {"op": "throughput_read", "path": path}
    assert adapter.ask("benchmark", iterationId="1", operation=operation)["metrics"]["messagesProcessed"] == 3
