"""The agent kit on the server that the protocol's authors wrote, which has no extensions."""

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from a2a.server.cluster import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.types import Task
from langgraph.graph import START, StateGraph
from pydantic_ai.messages import ModelRequest

from millstream.agents.a2a import StreamTasks
from millstream.agents.langgraph import StreamCheckpointer
from millstream.agents.openai_agents import StreamSession
from millstream.agents.pydantic_ai import MessageHistory
from python_client.conftest import reference

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with reference() as server:
        yield f"{server.url}/v1/stream/{uuid.uuid4()}"


def test_a_session(base: str) -> None:
    async def run() -> None:
        for n in range(3):
            await StreamSession(f"{base}/session").add_items([{"role": "user", "content": f"{n}"}] * 2)
        assert await StreamSession(f"{base}/session").pop_item() == {"role": "user", "content": "2"}
        found: Any = await StreamSession(f"{base}/session").get_items(limit=2)
        assert [item["content"] for item in found] == ["1", "2"]

    asyncio.run(run())


def test_a_history(base: str) -> None:
    async def run() -> None:
        messages = [ModelRequest.user_text_prompt(f"{n}") for n in range(4)]
        for _ in range(2):
            await MessageHistory(f"{base}/history").append(messages[:2])
        await MessageHistory(f"{base}/history").append(messages[2:])
        assert await MessageHistory(f"{base}/history").load() == messages
        assert await MessageHistory(f"{base}/history").load(last=3) == messages[1:]

    asyncio.run(run())


def test_checkpoints(base: str) -> None:
    builder = StateGraph(dict)
    builder.add_node("count", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "count")
    graph = builder.compile(checkpointer=StreamCheckpointer(f"{base}/graphs"))
    thread: Any = {"configurable": {"thread_id": "1"}}
    assert graph.invoke({"n": 1}, thread) == {"n": 2}
    assert graph.get_state(thread).values == {"n": 2}
    StreamCheckpointer(f"{base}/graphs").delete_thread("1")
    assert graph.get_state(thread).values == {}


def test_tasks(base: str) -> None:
    async def run() -> None:
        tasks, anyone = StreamTasks(f"{base}/a2a"), ServerCallContext()
        task = Task(id="1", context_id="c")
        version = await tasks.save(
            task, event=task, prev=None, prev_version=TaskVersion.MISSING, context=anyone
        )
        found = await StreamTasks(f"{base}/a2a").get("1", anyone)
        assert found is not None
        assert (found.task, found.version) == (task, version)

    asyncio.run(run())
