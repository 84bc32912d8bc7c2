"""The npm transports for chats against `durable_response`: nobody here wrote them."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from node import NodeUnavailableError, install, node
from running import Server, free_port, listening_on, started

HERE = Path(__file__).parent
TESTS = HERE.parent.parent
WORDS = "Nothing is lost."

pytestmark = pytest.mark.node


@contextmanager
def chats(data: Path, **environment: str) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "agents_kit.chats:api", "--app-dir", str(TESTS)]
    with started(
        [*command, "--port", str(port)], listening_on(port), {"CHATS_DATA": str(data), **environment}
    ) as server:
        yield server


def run(script: str, *arguments: str) -> Any:
    try:
        install(HERE)
        command = [node(), str(HERE / script), *arguments]
    except NodeUnavailableError as reason:
        pytest.skip(f"the transports need Node: {reason}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout.splitlines()[-1])


def test_the_ai_sdk_reads_an_answer(tmp_path: Path) -> None:
    with chats(tmp_path) as server:
        chat = str(uuid.uuid4())
        found = run("aisdk.mjs", server.url, chat, "once")
        assert found["text"] == WORDS
        assert found["errors"] == []
        assert found["second"] == len(found["kinds"]), "the second request should read the same answer"
        assert run("aisdk.mjs", server.url, chat, "resume") == {"stream": None}  # nothing is in flight
        assert run("aisdk.mjs", server.url, "another", "resume") == {"stream": None}


def test_the_ai_sdk_resumes_an_answer_after_a_reload(tmp_path: Path) -> None:
    with chats(tmp_path) as server:
        sent = httpx.post(f"{server.url}/api/chat", json={"id": "1", "messages": []})
        assert sent.status_code == 201
        assert sent.headers["Location"] == sent.json()["streamUrl"] == "/streams/chat/1"
        assert sent.headers["Access-Control-Expose-Headers"] == "Location"
        found = run("aisdk.mjs", server.url, "1", "resume")
        assert (found["text"], found["errors"]) == (WORDS, [])


def test_a_stopped_answer_is_an_abort(tmp_path: Path) -> None:
    with chats(tmp_path) as server:
        found = run("aisdk.mjs", server.url, "1", "stop")
        assert found["text"] == "Nothing "
        assert found["kinds"][-1] == "abort"


@pytest.mark.parametrize("resumes", [True, False])
def test_a_server_that_is_killed(tmp_path: Path, resumes: bool) -> None:
    environment = {"CHATS_RESUME": "1"} if resumes else {}
    with chats(tmp_path, **environment) as server:
        sent = httpx.post(f"{server.url}/api/chat", json={"id": "1", "messages": []})
        url = f"{server.url}{sent.headers['Location']}"
        server.wait_until(lambda: "Nothing" in httpx.get(url).text)
        os.kill(server.pid, signal.SIGKILL)
        server.wait_for_exit()
    with chats(tmp_path, **environment) as server:
        found = run("aisdk.mjs", server.url, "1", "resume" if resumes else "once")
        if resumes:
            assert (found["text"], found["errors"]) == (WORDS, [])
        else:
            assert found["text"] == "Nothing "
            assert found["kinds"][-1] == "error"
            assert "interrupted" in str(found["errors"])


def test_tanstack_ai_reads_a_session(tmp_path: Path) -> None:
    with chats(tmp_path) as server:
        found = run("tanstack.mjs", server.url, "s1", WORDS)
        messages = found["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant"] * 2
        texts = ["".join(part["content"] for part in message["parts"]) for message in messages]
        assert texts == ["why?", WORDS] * 2
        deltas = [
            chunk["delta"]
            for chunk in found["seen"]
            if chunk["type"] == "TEXT_MESSAGE_CONTENT" and chunk["messageId"] == "answer-q2"
        ]
        assert "".join(deltas) == WORDS
