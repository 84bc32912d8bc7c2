"""The npm client, used as our guide says, beside a server that is stopped or killed and comes back."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from docs.blocks import ROOT, blocks_of
from millstream import DurableStream
from node import NodeUnavailableError, install, node
from running import free_port, listening_on, started

HERE = Path(__file__).parent
GUIDE = ROOT / "docs/guides/javascript.md"

pytestmark = [pytest.mark.node, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def follow() -> Iterator[Path]:
    """The guide's `follow`, in a file beside the client's package, where Node finds it."""
    try:
        install(HERE)
    except NodeUnavailableError as reason:
        pytest.skip(f"the npm client needs Node: {reason}")
    [code] = [block.text for block in blocks_of(GUIDE) if "@durable-streams/client" in block.text]
    module = HERE / "node_modules" / "follow_of_the_guide.mjs"
    module.write_text(code)
    yield module
    module.unlink()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("live", ["long-poll", "sse", "true"])
def test_a_reader_gets_everything_once(follow: Path, tmp_path: Path, live: str, how: signal.Signals) -> None:
    port = free_port()
    serve = [sys.executable, "-m", "millstream", "serve", "--port", str(port), "--data", str(tmp_path)]
    url = f"http://127.0.0.1:{port}/chat/1"
    messages = [{"n": n} for n in range(30)]

    with started(serve, listening_on(port)) as server:
        stream = DurableStream.create(url, content_type="application/json")
        with reading(follow, url, live) as reader:
            for message in messages[:20]:
                stream.append(message)
            received: list[object] = []
            while len(received) < 20:
                received += json.loads(reader.stdout.readline())
            server.signal(how)
            server.stop()
            with started(serve, listening_on(port)):
                for message in messages[20:]:
                    stream.append(message)
                stream.close()
                rest, _ = reader.communicate(timeout=60)
    *batches, end = rest.splitlines()
    for batch in batches:
        received += json.loads(batch)
    assert received == messages
    assert end == "end"


@contextmanager
def reading(follow: Path, url: str, live: str) -> Iterator[Any]:
    command = [node(), str(HERE / "restarts.mjs"), str(follow), url, live]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        try:
            yield reader
        finally:
            reader.kill()
