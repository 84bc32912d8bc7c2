"""Pydantic AI's message histories in streams, with its function and test models and a real server."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent, models
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

import millstream
from agents_kit.programs import durable, finish, start
from millstream import Retry, TransportError
from millstream.agents import backwards
from millstream.agents.pydantic_ai import MessageHistory, write_events, write_text
from millstream.aio import DurableStream
from python_client.faulty_proxy import Fault, FaultyProxy
from running import Server, free_port

models.ALLOW_MODEL_REQUESTS = False


def prompts(messages: list[ModelMessage]) -> list[Any]:
    return [
        part.content
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


def counting(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that says how many prompts it was given."""
    return ModelResponse(parts=[TextPart(f"{len(prompts(messages))} prompts")])


def request(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def test_an_agent_goes_on_with_its_history(url: str) -> None:
    async def run() -> None:
        agent = Agent(FunctionModel(counting))
        said: list[ModelMessage] = []
        for turn in range(1, 4):
            history = MessageHistory(url)  # as in a request of its own
            result = await agent.run(f"turn {turn}", message_history=await history.load())
            assert result.output == f"{turn} prompts"
            await history.append(result.new_messages())
            said = result.all_messages()
        assert await MessageHistory(url).load() == said

    asyncio.run(run())


def test_tool_calls_and_binary_content_come_back_as_they_were(url: str) -> None:
    agent = Agent(TestModel())

    @agent.tool_plain
    def weather(city: str) -> dict[str, Any]:
        return {"city": city, "degrees": 10**20}

    async def run() -> None:
        result = await agent.run(["Look:", BinaryContent(b"\x89PNG\x00", media_type="image/png")])
        await MessageHistory(url).append(result.new_messages())
        stored = await MessageHistory(url).load()
        assert len(stored) == 4
        assert ModelMessagesTypeAdapter.dump_json(stored) == result.new_messages_json()

    asyncio.run(run())


def test_the_same_append_again_is_stored_once(url: str) -> None:
    async def run() -> None:
        agent = Agent(FunctionModel(counting))
        result = await agent.run("once")
        history = MessageHistory(url)
        await history.append(result.new_messages())
        await history.append(result.new_messages())
        await MessageHistory(url).append(result.new_messages())  # from another process, after a crash
        late = MessageHistory(url)
        assert len(await late.load(last=1)) == 1
        await history.append((await agent.run("twice")).new_messages())
        await late.append(result.new_messages())
        await asyncio.gather(*(MessageHistory(url).append(result.new_messages()) for _ in range(5)))
        assert prompts(await MessageHistory(url).load()) == ["once", "twice"]
        await history.append([])

    asyncio.run(run())


@pytest.mark.parametrize("last", [0, 1, 5, 1000])
def test_the_last_messages_are_found_from_the_end(
    url: str, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backwards.Steps.__init__, "__defaults__", (500,))

    async def run() -> None:
        history = MessageHistory(url)
        assert await history.load(last=last) == []
        messages = [request(f"{n}") for n in range(60)]
        for n in range(0, 60, 3):
            await history.append(messages[n : n + 3])
        expected = messages[-last:] if last else []
        assert await history.load(last=last) == await MessageHistory(url).load(last=last) == expected

    asyncio.run(run())


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.FAIL_500_AFTER])
def test_what_is_lost_on_the_way_is_stored_once(server: Server, url: str, fault: Fault) -> None:
    posts = iter(range(10_000))
    choose = lambda request: fault if request.method == "POST" and next(posts) % 2 == 0 else None  # noqa: E731

    async def run(history: MessageHistory) -> None:
        for n in range(10):
            await history.append([request(f"{n}")])

    with FaultyProxy(server.url, choose=choose) as proxy:
        handle = DurableStream(url.replace(server.url, proxy.url), retry=Retry(initial_delay_s=0.01))
        asyncio.run(run(MessageHistory(handle)))
    assert proxy.counts[fault] >= 5
    assert prompts(asyncio.run(MessageHistory(url).load())) == [f"{n}" for n in range(10)]


def test_an_append_that_failed_is_repeated_after_the_server_is_back(tmp_path: Path) -> None:
    port = str(free_port())
    with durable(tmp_path, port) as server:
        handle = DurableStream(f"{server.url}/chats/1", retry=Retry(max_attempts=1))
        history = MessageHistory(handle)
        asyncio.run(history.append([request("a")]))
        server.signal(signal.SIGKILL)
        server.wait_for_exit()
    with pytest.raises(TransportError):
        asyncio.run(history.append([request("b")]))
    with durable(tmp_path, port):
        asyncio.run(history.append([request("b")]))
        assert prompts(asyncio.run(history.load())) == ["a", "b"]


CHATS = """
    import asyncio, sys
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from millstream.agents.pydantic_ai import MessageHistory

    async def run(url, name):
        agent = Agent(FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("yes")])))
        history = MessageHistory(url)
        for n in range(15):
            result = await agent.run(f"{name}{n}", message_history=await history.load())
            await history.append(result.new_messages())

    asyncio.run(run(*sys.argv[1:]))
"""


def test_processes_that_share_a_history_lose_and_double_nothing(url: str) -> None:
    for program in [start(CHATS, url, name) for name in "ab"]:
        finish(program)
    messages = asyncio.run(MessageHistory(url).load())
    assert sorted(prompts(messages)) == sorted(f"{name}{n}" for name in "ab" for n in range(15))
    for asked, answered in zip(messages[::2], messages[1::2], strict=True):
        assert asked.run_id == answered.run_id  # turns are not torn apart


def test_tasks_of_one_program_share_a_history_object(url: str) -> None:
    async def run() -> None:
        one, other = MessageHistory(url), MessageHistory(url)
        appends = [[request(f"{n}")] for n in range(20)]
        await asyncio.gather(*(history.append(each) for each in appends for history in (one, other, one)))
        assert sorted(map(int, prompts(await one.load()))) == list(range(20))

    asyncio.run(run())


def test_text_is_followed_in_a_stream(url: str) -> None:
    async def words(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for word in ("Resumable ", "tokens, ", "exactly ", "once."):
            yield word

    async def run() -> int:
        agent = Agent(FunctionModel(stream_function=words))
        async with agent.run_stream("Go") as result:
            return await write_text(result.stream_text(delta=True, debounce_by=None), url)

    assert asyncio.run(run()) == 4
    with millstream.stream(url) as response:
        assert [message["token"] for message in response.iter_json()] == [
            "Resumable ",
            "tokens, ",
            "exactly ",
            "once.",
        ]
        assert response.stream_closed


def test_events_of_a_run_are_followed_in_a_stream(url: str) -> None:
    async def run() -> int:
        agent = Agent(TestModel(custom_output_text="Hello"))
        async with agent.run_stream_events("Go") as events:
            return await write_events(events, url)

    written = asyncio.run(run())
    events = list(millstream.stream(url).iter_json())
    assert len(events) == written
    assert {"part_start", "part_end"} < {event["event_kind"] for event in events}
