"""The public JavaScript client, `@durable-streams/client`, talks to each server."""

import base64
import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from millstream_conformance.client import discover, run_cases
from node import NodeUnavailableError, install, node
from public.clients.contents import ALL, Content
from running import Server

HERE = Path(__file__).parent
CONVERSATION_TIMEOUT_S = 60

pytestmark = [pytest.mark.node, pytest.mark.timeout(240)]


@pytest.fixture(scope="module", autouse=True)
def npm_client() -> None:
    try:
        install(HERE)
    except NodeUnavailableError as reason:
        pytest.skip(f"the npm client needs Node: {reason}")


def converse(server: Server, content: Content, live: str, writer: str) -> dict[str, Any]:
    """Run conversation.mjs, whose first lines say what it does."""
    task = {
        "url": f"{server.url}/npm/{uuid.uuid4()}",
        "contentType": content.content_type,
        "live": live,
        "writer": writer,
        "messages": [base64.b64encode(message).decode() for message in content.messages],
    }
    finished = subprocess.run(
        [node(), "conversation.mjs"],
        cwd=HERE,
        input=json.dumps(task),
        capture_output=True,
        text=True,
        timeout=CONVERSATION_TIMEOUT_S,
    )
    assert finished.returncode == 0, finished.stderr
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


@pytest.mark.parametrize("writer", ["plain", "producer"])
@pytest.mark.parametrize("live", ["long-poll", "sse"])
@pytest.mark.parametrize("kind", ALL)
def test_a_reader_gets_every_message_live_and_then_the_end(
    server: Server, kind: str, live: str, writer: str
) -> None:
    content = ALL[kind]
    report = converse(server, content, live, writer)
    if kind == "json":
        assert report["received"] == [json.loads(message) for message in content.messages]
    else:
        assert base64.b64decode(report["received"][0]) == b"".join(content.messages)
    assert report["readerSawClose"]
    assert report["headSawClose"]
    assert report["finalOffset"] == report["tailOffset"]
    assert report["lateAppend"] == {"status": 409, "closed": "true"}


def test_it_passes_the_required_cases_of_our_client_suite() -> None:
    """A failure here is most likely an unfair case, or a fault of `adapter.mjs`: see docs/conformance.md."""
    cases = discover(only=["append", "closure", "lifecycle", "producers", "reading"], skip=["stricter"])
    run = run_cases([node(), str(HERE / "adapter.mjs")], cases, jobs=2, tries=3)
    assert [(result.check.id, result.message) for result in run.failures] == []
    assert run.count("passed") >= 60
