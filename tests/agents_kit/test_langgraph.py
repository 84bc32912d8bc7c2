"""LangGraph's checkpoints in streams: the public suite for checkpointers, and real graphs."""

import asyncio
import json
import operator
import signal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import httpx
import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

import millstream
import millstream.aio
from agents_kit.programs import durable, finish, start
from millstream.agents import backwards, langgraph
from millstream.agents.langgraph import StreamCheckpointer, write_events
from millstream.aio import DurableStream
from python_client.faulty_proxy import Fault, FaultyProxy
from running import Server, free_port


class State(TypedDict):
    steps: Annotated[list[str], operator.add]


def graph_of(saver: Any, *nodes: str) -> Any:
    builder = StateGraph(State)
    before = START
    for node in nodes:
        builder.add_node(node, lambda state, node=node: {"steps": [node]})
        builder.add_edge(before, node)
        before = node
    builder.add_edge(before, END)
    return builder.compile(checkpointer=saver)


def thread(name: str = "1") -> Any:
    return {"configurable": {"thread_id": name}}


@pytest.mark.parametrize("step_bytes", [backwards.STEP_BYTES, 300])
def test_the_public_suite_for_checkpointers_passes(
    url: str, step_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backwards.Steps.__init__, "__defaults__", (step_bytes,))

    @checkpointer_test(name="StreamCheckpointer")
    async def checkpointer() -> AsyncIterator[StreamCheckpointer]:
        yield StreamCheckpointer(f"{url}/{uuid.uuid4()}")

    report = asyncio.run(validate(checkpointer))
    failures = [line for result in report.results.values() for line in result.failures or ()]
    assert failures == []
    passed = {name: result.tests_passed for name, result in report.results.items() if result.passed}
    assert set(passed) == {"put", "put_writes", "get_tuple", "list", "delete_thread", "copy_thread"}
    assert sum(passed.values()) > 50


def plain(tuples: Any) -> list[Any]:
    """What is left of checkpoints when what differs from run to run is removed."""
    return [
        (
            one.checkpoint["channel_values"],
            {key: value for key, value in one.metadata.items() if key in ("source", "step")},
            sorted((channel, repr(value)) for _, channel, value in one.pending_writes or ()),
            one.parent_config is None,
        )
        for one in tuples
    ]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_graph_has_the_same_history_as_in_memory(url: str, durability: Any, is_async: bool) -> None:
    def run(saver: Any) -> list[CheckpointTuple]:
        graph = graph_of(saver, *"abc")
        for text in ("hello", "again"):
            if is_async:
                asyncio.run(graph.ainvoke({"steps": [text]}, thread(), durability=durability))
            else:
                graph.invoke({"steps": [text]}, thread(), durability=durability)
        return list(saver.list(thread()))

    found = run(StreamCheckpointer(url))
    assert plain(found) == plain(run(InMemorySaver()))
    assert plain(StreamCheckpointer(url).list(thread(), limit=1)) == plain(found[:1])


def test_an_interrupted_graph_goes_on_in_another_process(url: str) -> None:
    program = """
        import sys
        from typing import TypedDict
        from langgraph.graph import END, START, StateGraph
        from langgraph.types import Command, interrupt
        from millstream.agents.langgraph import StreamCheckpointer

        class State(TypedDict):
            answer: str

        builder = StateGraph(State)
        builder.add_node("ask", lambda state: {"answer": interrupt("What is your name?")})
        builder.add_edge(START, "ask")
        builder.add_edge("ask", END)
        graph = builder.compile(checkpointer=StreamCheckpointer(sys.argv[1]))
        given = Command(resume=sys.argv[2]) if len(sys.argv) > 2 else {"answer": ""}
        print(graph.invoke(given, {"configurable": {"thread_id": "a/b ü"}}))
    """
    assert "What is your name?" in finish(start(program, url))
    assert finish(start(program, url, "Ada")) == "{'answer': 'Ada'}\n"


def test_a_graph_that_fails_does_not_repeat_the_tasks_that_succeeded(url: str) -> None:
    ran: list[str] = []

    def node(name: str) -> Any:
        def run(state: State) -> Any:
            ran.append(name)
            if name == "bad" and ran.count("bad") == 1:
                raise RuntimeError("the first time")
            return {"steps": [name]}

        return run

    def graph() -> Any:
        builder = StateGraph(State)
        for name in ("good", "bad"):
            builder.add_node(name, node(name))
            builder.add_edge(START, name)
        return builder.compile(checkpointer=StreamCheckpointer(url))

    with pytest.raises(RuntimeError):
        graph().invoke({"steps": []}, thread())
    assert sorted(graph().invoke(None, thread())["steps"]) == ["bad", "good"]
    assert sorted(ran) == ["bad", "bad", "good"]


def test_subgraphs_have_streams_of_their_own_which_go_with_the_thread(server: Server, url: str) -> None:
    inner = StateGraph(State)
    inner.add_node("ask", lambda state: {"steps": [interrupt("?")]})
    inner.add_edge(START, "ask")
    outer = StateGraph(State)
    outer.add_node("child", inner.compile())
    outer.add_edge(START, "child")
    saver = StreamCheckpointer(url)
    graph = outer.compile(checkpointer=saver)
    graph.invoke({"steps": ["a"]}, thread("x"))
    graph.invoke({"steps": ["a"]}, thread("y"))
    assert len(graph.get_state(thread("x"), subgraphs=True).tasks[0].state.tasks) == 1
    assert graph.invoke(Command(resume="b"), thread("x"))["steps"] == ["a", "a", "b"]
    assert {one.config["configurable"]["thread_id"] for one in saver.list(None)} == {"x", "y"}
    saver.delete_thread("x")
    saver.delete_thread("x")
    saver.delete_thread("never was")
    assert {one.config["configurable"]["thread_id"] for one in saver.list(None)} == {"y"}
    listed = httpx.get(f"{server.url}/__ds/streams", params={"prefix": url.removeprefix(server.url)}).json()
    left = [one["path"].removeprefix(url.removeprefix(server.url)) for one in listed["streams"]]
    assert [path for path in left if path.startswith("/x")] == []
    assert len([path for path in left if path.startswith("/y/")]) == 2
    assert graph.invoke({"steps": ["new"]}, thread("x"))["steps"] == ["new"]


def test_time_travel_forks_a_thread(url: str) -> None:
    graph = graph_of(StreamCheckpointer(url), *"abc")
    graph.invoke({"steps": []}, thread())
    after_a = next(one for one in graph.get_state_history(thread()) if one.values["steps"] == ["a"])
    forked = graph.update_state(after_a.config, {"steps": ["!"]}, as_node="a")
    assert graph.invoke(None, forked)["steps"] == ["a", "!", "b", "c"]
    assert graph.get_state(thread()).values["steps"] == ["a", "!", "b", "c"]
    assert graph.get_state(after_a.config).values["steps"] == ["a"]


def test_the_latest_checkpoint_of_a_long_thread_is_found_without_reading_it(server: Server, url: str) -> None:
    saver = StreamCheckpointer(url)
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    for n in range(60):
        checkpoint = {**empty_checkpoint(), "channel_values": {"n": n, "state": "x" * 50_000}}
        config = saver.put(config, checkpoint, {"step": n}, {})  # type: ignore[arg-type]
    with FaultyProxy(server.url) as proxy:
        fresh = StreamCheckpointer(url.replace(server.url, proxy.url))
        for _ in range(2):
            found = fresh.get_tuple(thread())
            assert found is not None
            assert found.checkpoint["channel_values"]["n"] == 59
    assert [request.method for request in proxy.seen].count("GET") == 2
    assert [request.method for request in proxy.seen].count("HEAD") <= 9


def test_writes_that_come_before_their_checkpoint_are_found_with_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backwards.Steps.__init__, "__defaults__", (200,))
    saver = StreamCheckpointer(url)
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    first, second = empty_checkpoint(), empty_checkpoint()
    config = saver.put(config, first, {}, {})
    saver.put_writes(
        {"configurable": {**config["configurable"], "checkpoint_id": second["id"]}}, [("c", 1)], "t"
    )
    saver.put_writes(config, [("filler", "x" * 2000)], "t")
    latest = saver.put(config, second, {}, {})
    saver.put_writes(latest, [("c", 2)], "u")
    found = StreamCheckpointer(url).get_tuple(thread())
    assert found is not None
    assert found.pending_writes == [("t", "c", 1), ("u", "c", 2)]


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.FAIL_500_AFTER])
def test_what_is_lost_on_the_way_counts_once(server: Server, url: str, fault: Fault) -> None:
    posts = iter(range(10_000))
    choose = lambda request: fault if request.method == "POST" and next(posts) % 2 == 0 else None  # noqa: E731
    with FaultyProxy(server.url, choose=choose) as proxy:
        graph = graph_of(StreamCheckpointer(url.replace(server.url, proxy.url)), *"abc")
        assert graph.invoke({"steps": ["x"]}, thread())["steps"] == ["x", "a", "b", "c"]
    expected = InMemorySaver()
    graph_of(expected, *"abc").invoke({"steps": ["x"]}, thread())
    assert plain(StreamCheckpointer(url).list(thread())) == plain(expected.list(thread()))
    assert proxy.counts[fault] >= 4


COUNTS = """
    import operator, os, sys, time
    from typing import Annotated, TypedDict
    from langgraph.graph import END, START, StateGraph
    from millstream.agents.langgraph import StreamCheckpointer

    class State(TypedDict):
        steps: Annotated[list, operator.add]

    def step(state):
        print(len(state["steps"]), flush=True)
        return {"steps": [len(state["steps"])]}

    builder = StateGraph(State)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: END if len(state["steps"]) >= 300 else "step")
    graph = builder.compile(checkpointer=StreamCheckpointer(sys.argv[1]))
    config = {"configurable": {"thread_id": "1"}, "recursion_limit": 400}
    begun = graph.get_state(config).created_at is not None
    print(graph.invoke(None if begun else {"steps": []}, config, durability="sync")["steps"])
"""


def test_a_graph_that_is_killed_goes_on_where_it_was(url: str) -> None:
    last = -1
    for _ in range(3):
        program = start(COUNTS, url)
        assert program.stdout is not None
        begun = int(program.stdout.readline())
        assert begun in (last, last + 1)  # the step that was killed runs again, and none before it
        for _ in range(3):
            program.stdout.readline()
        program.send_signal(signal.SIGKILL)
        last = begun + 3 + len(program.stdout.read().splitlines())  # communicate would miss what is buffered
        program.communicate()
    *printed, result = finish(start(COUNTS, url)).splitlines()
    assert int(printed[0]) in (last, last + 1)
    assert json.loads(result) == list(range(300))


def test_checkpoints_survive_a_kill_of_the_server(tmp_path: Path) -> None:
    port = str(free_port())
    with durable(tmp_path, port) as server:
        url = f"{server.url}/graphs"
        graph_of(StreamCheckpointer(url), *"ab").invoke({"steps": ["1"]}, thread())
        server.signal(signal.SIGKILL)
        server.wait_for_exit()
    with durable(tmp_path, port):
        graph = graph_of(StreamCheckpointer(url), *"ab")
        assert graph.invoke({"steps": ["2"]}, thread())["steps"] == ["1", "a", "b", "2", "a", "b"]


def test_handles_instead_of_a_url(url: str) -> None:
    async def run() -> None:
        saver = StreamCheckpointer(lambda path: DurableStream(url + path))
        graph = graph_of(saver, *"ab")
        await graph.ainvoke({"steps": []}, thread())
        assert (await graph.aget_state(thread())).values == {"steps": ["a", "b"]}

    asyncio.run(run())


def test_events_of_a_graph_are_followed_in_a_stream(url: str) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("Hello there, friend.")]))

    async def answer(state: State) -> Any:
        return {"steps": [(await model.ainvoke("Hi")).content]}

    async def run() -> tuple[int, list[Any]]:
        builder = StateGraph(State)
        builder.add_node("answer", answer)
        builder.add_edge(START, "answer")
        graph = builder.compile()
        await DurableStream.create(url, content_type="application/json")
        async with millstream.aio.stream(url) as response:
            following = asyncio.create_task(collect(response))
            written = await write_events(
                graph.astream({"steps": []}, stream_mode=["messages", "updates"]), url
            )
            return written, await following

    async def collect(response: Any) -> list[Any]:
        return [event async for event in response.iter_json()]

    written, events = asyncio.run(run())
    assert written == len(events)
    text = "".join(data[0]["content"] for mode, data in events if mode == "messages")
    assert text == "Hello there, friend."
    assert events[-1] == ["updates", {"answer": {"steps": [text]}}]


def test_a_graph_that_fails_ends_its_events_with_the_error(url: str) -> None:
    def bad(state: State) -> Any:
        raise ZeroDivisionError("a secret")

    async def run() -> None:
        builder = StateGraph(State)
        builder.add_node("bad", bad)
        builder.add_edge(START, "bad")
        with pytest.raises(ZeroDivisionError):
            await write_events(builder.compile().astream({"steps": []}), url)

    asyncio.run(run())
    with millstream.stream(url) as response:
        assert list(response.iter_json()) == [{"error": "ZeroDivisionError"}]
        assert response.stream_closed


def test_what_is_remembered_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(langgraph, "_MAX_KNOWN", 3)
    early, steps = langgraph.EarlyWrites(), langgraph.KnownSteps()
    for n in range(10):
        early.add(("t", "", str(n)), {"n": n})
        steps.of(str(n))
    assert [early.take(("t", "", str(n))) for n in range(6, 8)] == [[], [{"n": 7}]]
    kept = steps.of("9")
    assert steps.of("9") is kept
