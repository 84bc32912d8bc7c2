"""The adapter's timed commands do what they claim to measure."""

from __future__ import annotations

import pytest

from millstream.adapter.commands import Adapter
from millstream_conformance.client.servers import ScriptedServer

COUNT, SIZE = 20_000, 100


@pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
def test_small_messages_are_batched(use_async: bool) -> None:
    """The public suite appends 100,000 of them, twelve times: one request for each takes minutes."""
    server = ScriptedServer()
    scene = server.scene("bench")
    adapter = Adapter(use_async=use_async)
    try:
        adapter.answer({"type": "init", "serverUrl": server.url})
        operation = {"op": "throughput_append", "path": "/bench/stream", "count": COUNT, "size": SIZE}
        result = adapter.answer({"type": "benchmark", "iterationId": "1", "operation": operation})
        assert result["success"], result
        assert result["metrics"]["messagesProcessed"] == COUNT
        assert scene.streams["/bench/stream"].tail == COUNT * SIZE
        assert sum(request.method == "POST" for request in scene.requests) < COUNT / 100
    finally:
        adapter.close()
        server.close()
