"""Sessions of the OpenAI Agents SDK, with the SDK itself, its scripted model and a real server."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, SessionSettings, SQLiteSession
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool import function_tool

import millstream
from agents_kit.programs import durable, finish, start
from millstream import MillstreamError, Retry, TransportError
from millstream.agents import backwards
from millstream.agents.openai_agents import StreamSession
from millstream.aio import DurableStream
from python_client.faulty_proxy import Fault, FaultyProxy, Request
from running import Server, free_port
from running import millstream as serve

QUIET = RunConfig(tracing_disabled=True)
QUICK = Retry(initial_delay_s=0.002, max_delay_s=0.02, max_total_s=30)


def item(text: str) -> Any:
    return {"role": "user", "content": text}


def items(*texts: str) -> list[Any]:
    return [item(text) for text in texts]


def test_it_is_a_session_of_the_sdk(url: str) -> None:
    assert isinstance(StreamSession(url), Session)


def test_an_agent_remembers_what_was_said_and_which_tools_it_called(url: str) -> None:
    @function_tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"rain in {city}"

    def agent(*steps: Any) -> tuple[Agent, ScriptedModel]:
        model = ScriptedModel(list(steps))
        return Agent("guide", model=model, tools=[weather]), model

    async def converse(session: Session) -> Any:
        first, _ = agent(
            [function_call("weather", {"city": "Oslo"}, call_id="1")], [assistant_message("It rains.")]
        )
        await Runner.run(first, "How is Oslo?", session=session, run_config=QUIET)
        second, model = agent([assistant_message("Take an umbrella.")])
        await Runner.run(second, "And what do I need?", session=session, run_config=QUIET)
        assert model.last_call is not None
        return model.last_call.input, await session.get_items()

    async def both() -> tuple[Any, Any]:
        await converse(StreamSession(url))  # so that the second conversation goes on from the first
        stream = await converse(StreamSession(url))
        sqlite = SQLiteSession("1")
        await converse(sqlite)
        return stream, await converse(sqlite)

    def without_ids(value: Any) -> str:
        return str([{**one, "call_id": "", "id": ""} for one in value])

    (said, kept), (said_sqlite, kept_sqlite) = asyncio.run(both())
    assert without_ids(said) == without_ids(said_sqlite)
    assert without_ids(kept) == without_ids(kept_sqlite)
    assert len(kept) == 12


@pytest.mark.parametrize("limit", [1, 2, 7, 50, 10_000])
def test_the_last_items_are_the_same_wherever_the_stream_is_cut_into_steps(
    url: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backwards.Steps.__init__, "__defaults__", (200,))

    async def run() -> None:
        session, model = StreamSession(url), []
        for turn in range(40):
            added = items(*(f"{turn}.{n}" for n in range(turn % 4)))
            await session.add_items(added)
            model += added
            for _ in range(turn % 3):
                assert await session.pop_item() == (model.pop() if model else None)
            if turn == 15:
                await session.clear_session()
                model.clear()
            if turn % 5 == 4:
                assert await session.get_items() == model
                assert await session.get_items(limit) == model[-limit:]
                assert await StreamSession(url).get_items(limit) == model[-limit:]

    asyncio.run(run())


def test_the_last_items_of_a_long_session_are_found_without_reading_it(server: Server, url: str) -> None:
    async def run(limit: int | None) -> int:
        with FaultyProxy(server.url) as proxy:
            session = StreamSession(url.replace(server.url, proxy.url))
            assert len(await session.get_items(limit)) == (limit or 3000)
            return sum(request.method == "GET" for request in proxy.seen)

    async def fill() -> None:
        session = StreamSession(url)
        for n in range(30):
            await session.add_items(items(*(f"{n}.{m}" + "x" * 3000 for m in range(100))))

    asyncio.run(fill())
    assert asyncio.run(run(5)) == 1


def test_settings_limit_what_is_given_to_the_model(url: str) -> None:
    async def run() -> None:
        session = StreamSession(url, session_settings=SessionSettings(limit=2))
        await session.add_items(items("a", "b", "c"))
        assert await session.get_items() == items("b", "c")
        assert await session.get_items(limit=0) == []
        assert await session.get_items(limit=1) == items("c")

    asyncio.run(run())


def test_a_session_that_was_never_used_is_empty(url: str) -> None:
    async def run() -> None:
        session = StreamSession(url)
        assert await session.get_items() == []
        assert await session.get_items(3) == []
        assert await session.pop_item() is None
        await session.add_items([])
        with pytest.raises(millstream.StreamNotFoundError):
            await DurableStream.head(url)
        await session.clear_session()
        assert await session.get_items() == []

    asyncio.run(run())


def test_a_handle_or_a_url_with_a_token(tmp_path: Path) -> None:
    secret = "0123456789abcdef0123456789abcdef"
    token = finish(
        start(
            f"from millstream.cli.main import run; import sys;"
            f"sys.argv = ['millstream', 'token', '--secret', '{secret}', 'read', 'write']; run()"
        )
    ).strip()

    async def run(url: str) -> None:
        await StreamSession(url, token=token).add_items(items("a"))
        await StreamSession(url, token=lambda: token).add_items(items("b"))
        handle = DurableStream(url, headers={"Authorization": f"Bearer {token}"})
        await StreamSession(handle).add_items(items("c"))
        assert await StreamSession(handle).get_items(3) == items("a", "b", "c")
        with pytest.raises(millstream.UnauthorizedError):
            await StreamSession(url).get_items()
        with pytest.raises(ValueError, match="a token goes with a URL"):
            StreamSession(handle, token=token)

    with serve("--auth-secret", secret) as server:
        asyncio.run(run(f"{server.url}/sessions/1"))


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.FAIL_500, Fault.FAIL_500_AFTER])
def test_what_is_lost_on_the_way_is_stored_once(server: Server, url: str, fault: Fault) -> None:
    async def run(session: StreamSession) -> None:
        for n in range(20):
            await session.add_items(items(f"{n}", f"{n}!", f"{n}?"))
            assert await session.pop_item() == item(f"{n}?")
        assert await session.get_items() == items(*(f"{n // 2}{'!' * (n % 2)}" for n in range(40)))

    posts = iter(range(10_000))
    choose = lambda request: fault if request.method == "POST" and next(posts) % 2 == 0 else None  # noqa: E731
    with FaultyProxy(server.url, choose=choose) as proxy:
        handle = DurableStream(url.replace(server.url, proxy.url), retry=QUICK)
        asyncio.run(run(StreamSession(handle)))
    assert proxy.counts[fault] >= 20


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER])
def test_a_call_that_failed_can_be_repeated(server: Server, url: str, fault: Fault) -> None:
    """The network is gone for longer than retries last, and the application tries again."""
    broken = False

    def choose(request: Request) -> Fault | None:
        nonlocal broken
        if request.method == "POST" and is_bad:
            broken = True
            return fault
        return Fault.CUT_BEFORE if broken and is_bad else None

    async def run(session: StreamSession) -> None:
        nonlocal is_bad, broken
        await session.add_items(items("a", "b"))
        for call in (lambda: session.add_items(items("c", "d")), session.pop_item):
            is_bad, broken = True, False
            with pytest.raises(TransportError):
                await call()
            is_bad = False
            if call == session.pop_item:
                await session.get_items()  # what was read meanwhile changes nothing
                assert await call() == item("d")
            else:
                await call()
        assert await StreamSession(url).get_items() == items("a", "b", "c")

    is_bad = False
    with FaultyProxy(server.url, choose=choose) as proxy:
        handle = DurableStream(url.replace(server.url, proxy.url), retry=Retry(max_attempts=2))
        asyncio.run(run(StreamSession(handle)))


RACE = """
    import asyncio, json, sys
    from millstream.agents.openai_agents import StreamSession

    async def run(url, name):
        session, popped = StreamSession(url), []
        for n in range(25):
            await session.add_items([{"role": "user", "content": f"{name}.{n}.{m}"} for m in range(3)])
            popped.append(await session.pop_item())
        print(json.dumps([item["content"] for item in popped]))

    asyncio.run(run(*sys.argv[1:]))
"""


def test_processes_that_share_a_session_lose_and_double_nothing(url: str) -> None:
    programs = [start(RACE, url, name) for name in "ab"]
    popped = [content for program in programs for content in json.loads(finish(program))]
    kept = [one["content"] for one in asyncio.run(StreamSession(url).get_items())]
    assert sorted(popped + kept) == sorted(
        f"{name}.{n}.{m}" for name in "ab" for n in range(25) for m in range(3)
    )
    for name in "ab":  # each process's own order is kept
        numbers = [tuple(map(int, one.split(".")[1:])) for one in kept if one.startswith(name)]
        assert numbers == sorted(numbers)


KILLED = """
    import asyncio, sys
    from millstream.agents.openai_agents import StreamSession

    async def run(url):
        session = StreamSession(url)
        begin = len(await session.get_items()) // 2
        for n in range(begin, 10_000):
            await session.add_items([{"role": "user", "content": f"{n}{mark}"} for mark in "?!"])
            print(n, flush=True)

    asyncio.run(run(*sys.argv[1:]))
"""


def test_a_session_is_exact_after_kills_of_the_program(url: str) -> None:
    acknowledged = -1
    for _ in range(2):
        program = start(KILLED, url)
        assert program.stdout is not None
        acknowledged = [int(program.stdout.readline()) for _ in range(7)][-1]
        program.send_signal(signal.SIGKILL)
        program.communicate()
        kept = [one["content"] for one in asyncio.run(StreamSession(url).get_items())]
        assert len(kept) >= 2 * (acknowledged + 1)
        assert kept == [f"{n}{mark}" for n in range(len(kept) // 2) for mark in "?!"]


def test_a_session_is_exact_after_a_kill_of_the_server(tmp_path: Path) -> None:
    port = str(free_port())
    with durable(tmp_path, port) as server:
        url = f"{server.url}/sessions/1"
        session = StreamSession(url)

        async def run() -> None:
            for n in range(50):
                await session.add_items(items(f"{n}"))
            await session.pop_item()

        asyncio.run(run())
        server.signal(signal.SIGKILL)
        server.wait_for_exit()
    with durable(tmp_path, port):
        assert asyncio.run(session.get_items()) == items(*map(str, range(49)))
        asyncio.run(session.add_items(items("on")))
        assert asyncio.run(StreamSession(url).get_items(2)) == items("48", "on")


def test_a_stream_that_something_else_writes_to_is_refused(url: str) -> None:
    async def run() -> None:
        stream = await DurableStream.create(url, content_type="application/json")
        await stream.append({"not": "a record"})
        with pytest.raises(MillstreamError, match="a stream of its own"):
            await StreamSession(url).get_items()

    asyncio.run(run())


def test_a_session_begins_again_when_its_stream_was_deleted(url: str) -> None:
    async def run() -> None:
        session = StreamSession(url)
        for n in range(5):
            await session.add_items(items(f"{n}"))
        await DurableStream.delete(url)
        assert await session.get_items(2) == []
        await session.add_items(items("new"))
        await DurableStream.delete(url)
        await session.add_items(items("newer"))
        assert await session.get_items() == await session.get_items(9) == items("newer")

    asyncio.run(run())


def test_a_stream_whose_numbers_something_else_uses_is_refused(url: str) -> None:
    async def run() -> None:
        stream = await DurableStream.create(url, content_type="application/json")
        await stream.append({"n": 1, "id": "x"}, seq="z")
        with pytest.raises(MillstreamError, match="a stream of its own"):
            await StreamSession(url).add_items(items("a"))

    asyncio.run(run())


def test_tasks_of_one_program_share_a_session_object(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backwards.Steps.__init__, "__defaults__", (300,))

    async def run() -> None:
        session = StreamSession(url)
        popped: list[Any] = []

        async def add(name: str) -> None:
            for n in range(15):
                await session.add_items(items(f"{name}{n}", f"{name}{n}!"))

        async def pop() -> None:
            popped.extend([await session.pop_item() for _ in range(20)])

        await session.add_items(items(*(f"{n}" for n in range(40))))
        await asyncio.gather(add("a"), pop(), add("b"), pop(), session.get_items(), session.get_items(10))
        left = await StreamSession(url).get_items()
        contents = sorted(one["content"] for one in [*left, *popped])
        assert contents == sorted(
            [f"{n}" for n in range(40)]
            + [f"{name}{n}{end}" for name in "ab" for n in range(15) for end in ("", "!")]
        )

    asyncio.run(run())


def test_a_list_that_is_changed_after_a_call_failed_is_not_taken_for_it(server: Server, url: str) -> None:
    is_bad = False
    choose = lambda request: Fault.CUT_AFTER if is_bad else None  # noqa: E731

    async def run(session: StreamSession) -> None:
        nonlocal is_bad
        await session.add_items(items("a"))
        added, is_bad = items("b"), True
        with pytest.raises(TransportError):
            await session.add_items(added)
        is_bad = False
        added += items("c")
        await session.add_items(added)
        assert await session.get_items() == items("a", "b", "b", "c")

    with FaultyProxy(server.url, choose=choose) as proxy:
        handle = DurableStream(url.replace(server.url, proxy.url), retry=Retry(max_attempts=1))
        asyncio.run(run(StreamSession(handle)))


def test_on_a_bad_network_nothing_is_lost_and_nothing_doubled(server: Server, url: str) -> None:
    async def run(url: str) -> list[Any]:
        popped: list[Any] = []

        async def use(name: str) -> None:
            session = StreamSession(DurableStream(url, retry=QUICK))
            for n in range(12):
                while True:
                    try:
                        await session.add_items(items(f"{name}{n}", f"{name}{n}!"))
                        break
                    except MillstreamError:
                        continue  # as an application would: the same call again
                while True:
                    try:
                        popped.append(await session.pop_item())
                        break
                    except MillstreamError:
                        continue

        await asyncio.gather(use("a"), use("b"), use("c"))
        return popped

    with FaultyProxy(server.url, seed=5, rate=0.25) as proxy:
        popped = asyncio.run(run(url.replace(server.url, proxy.url)))
    assert proxy.fault_count > 30
    left = asyncio.run(StreamSession(url).get_items())
    contents = sorted(one["content"] for one in [*left, *popped])  # type: ignore[typeddict-item]
    assert contents == sorted(f"{name}{n}{end}" for name in "abc" for n in range(12) for end in ("", "!"))
