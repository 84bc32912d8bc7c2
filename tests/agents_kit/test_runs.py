"""Runs: once, whoever reads; stored before they are shown; and what becomes of them when a process ends."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from millstream.agents import Run, Runs
from millstream.agents.endings import ag_ui, ag_ui_message
from millstream.agents.run_records import Record
from millstream.aio import ProducerStamp, StreamExistsError, StreamNotFoundError
from millstream.asgi import MillstreamApp
from millstream.protocol import problems

TEXT = "text/plain"


@asynccontextmanager
async def process(folder: Path, **options: Any) -> AsyncIterator[Runs]:
    """The life of an application."""
    runs = Runs(MillstreamApp(data=str(folder)), **options)
    async with runs.streams.lifespan():
        yield runs


@asynccontextmanager
async def killed_process(folder: Path, **options: Any) -> AsyncIterator[Runs]:
    """A process whose end nobody sees: its runs get no chance to store anything."""
    runs = Runs(MillstreamApp(data=str(folder)), **options)
    await runs.streams.open()
    yield runs
    tasks = [run._task for run in runs._active.values() if run._task is not None]
    runs._end = None  # type: ignore[assignment,method-assign]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    runs.streams.on_close.clear()
    await runs.streams.close()


async def text(runs: Runs, path: str = "/a") -> str:
    return await (await runs.streams.stream(path).stream(live=False)).read_text()


async def messages(runs: Runs, path: str = "/a") -> list[Any]:
    return await (await runs.streams.stream(path).stream(live=False)).read_json()


async def nothing_is_left(runs: Runs) -> bool:
    return [record async for record in runs._records.active()] == []


def endless(begun: asyncio.Event, *first: Any) -> Callable[[Run], AsyncIterator[Any]]:
    async def go(_run: Run) -> AsyncIterator[Any]:
        for one in first:
            yield one
        begun.set()
        await asyncio.Event().wait()

    return go


def test_a_run_is_run_once_and_closes_its_stream(tmp_path: Path) -> None:
    calls = []

    async def answer(run: Run) -> AsyncIterator[Any]:
        calls.append(run.input)
        for number in range(3):
            yield {"n": number}
            await asyncio.sleep(0)

    async def main() -> None:
        async with process(tmp_path) as runs:
            began = await asyncio.gather(*(runs.start("/a", answer, input="x") for _ in range(5)))
            assert sorted(began) == [False] * 4 + [True]
            await runs.wait("/a")
            assert await runs.status("/a") == "complete"
            assert not await runs.start("/a", answer)
            assert await messages(runs) == [{"n": 0}, {"n": 1}, {"n": 2}]
            assert await nothing_is_left(runs)
            assert await runs.status("/nowhere") is None
        async with process(tmp_path) as runs:
            assert not await runs.start("/a", answer)
        assert calls == ["x"]

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["async generator", "generator", "list", "coroutine"])
def test_every_kind_of_source_is_run(tmp_path: Path, kind: str) -> None:
    async def asynchronous() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    def blocking() -> Iterator[str]:
        yield "a"
        yield "b"

    async def later(_run: Run) -> list[str]:
        return ["a", "b"]

    async def main() -> None:
        sources: dict[str, Any] = {
            "async generator": asynchronous(),
            "generator": blocking(),
            "list": ["a", "b"],
            "coroutine": later,
        }
        source = sources.pop(kind)
        await sources.get("async generator", asynchronous()).aclose()
        async with process(tmp_path) as runs:
            await runs.start("/a", source, content_type=TEXT)
            await runs.wait("/a")
            assert await text(runs) == "ab"
            unused = asynchronous()
            assert not await runs.start("/a", unused)
            with pytest.raises(StopAsyncIteration):  # it was closed
                await anext(unused)

    asyncio.run(main())


def test_a_fast_generator_is_stored_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path) as runs:
            await runs.start("/a", range(5000))
            await runs.wait("/a")
            assert await messages(runs) == list(range(5000))

    asyncio.run(main())


def test_a_run_that_fails_says_so_without_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(_run: Run) -> AsyncIterator[Any]:
        yield "half"
        raise LookupError("the secret reason")

    async def main() -> None:
        async with process(tmp_path) as runs:
            await runs.start("/a", answer)
            await runs.wait("/a")
            assert await runs.status("/a") == "failed"
            assert await messages(runs) == ["half", {"type": "error", "errorText": "The answer failed."}]
            assert (await runs.streams.stream("/a").head()).stream_closed

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "the secret reason" in caplog.text


def test_a_run_is_stopped_for_good(tmp_path: Path) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        async with process(tmp_path, resume=endless(asyncio.Event())) as runs:
            await runs.start("/a", endless(begun, "half"))
            await begun.wait()
            assert await runs.status("/a") == "running"
            assert await runs.stop("/a")
            assert not await runs.stop("/a")
            assert await messages(runs) == ["half", {"type": "abort"}]
        async with process(tmp_path, resume=endless(asyncio.Event())) as runs:
            assert await runs.status("/a") == "stopped"
            assert not await runs.start("/a", endless(begun))

    asyncio.run(main())


@pytest.mark.parametrize("how", [process, killed_process])
def test_a_run_without_a_way_to_go_on_is_interrupted(tmp_path: Path, how: Any) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        async with how(tmp_path) as runs:
            await runs.start("/a", endless(begun, "half"))
            await begun.wait()
        async with process(tmp_path) as runs:
            assert await runs.status("/a") == "interrupted"
            half, end = await messages(runs)
            assert (half, end["type"]) == ("half", "error")
            assert (await runs.streams.stream("/a").head()).stream_closed
            assert await nothing_is_left(runs)

    asyncio.run(main())


@pytest.mark.parametrize("how", [process, killed_process])
def test_a_run_is_run_on_from_what_is_stored(tmp_path: Path, how: Any) -> None:
    async def go_on(run: Run) -> AsyncIterator[str]:
        stored = await run.text()
        for character in run.input["text"][len(stored) :]:
            yield character

    async def main() -> None:
        begun = asyncio.Event()
        for count in range(3):  # it dies more than once
            async with how(tmp_path, resume=endless(begun, str(count))) as runs:
                await runs.start("/a", endless(begun, "x"), input={"text": "x012abc"}, content_type=TEXT)
                await begun.wait()
                begun.clear()
        async with process(tmp_path, resume=go_on) as runs:
            await runs.wait("/a")
            assert await runs.status("/a") == "complete"
            assert (await text(runs)).startswith("x12")
            assert len(await text(runs)) == len("x012abc")

    asyncio.run(main())


def test_a_run_that_nobody_wants_to_run_on_is_interrupted(tmp_path: Path) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        async with killed_process(tmp_path) as runs:
            await runs.start("/a", endless(begun, "half"), content_type=TEXT)
            await begun.wait()
        async with process(tmp_path, resume=lambda run: None) as runs:
            await runs.wait("/a")
            assert await runs.status("/a") == "interrupted"
            assert await text(runs) == "half"

    asyncio.run(main())


def test_a_paused_run_waits_also_across_a_restart(tmp_path: Path) -> None:
    async def rest(run: Run) -> AsyncIterator[str]:
        yield f"{await run.text()} and the rest"

    async def main() -> None:
        begun = asyncio.Event()
        async with process(tmp_path, resume=rest) as runs:
            await runs.start("/a", endless(begun, "half"), content_type=TEXT)
            await begun.wait()
            assert await runs.pause("/a")
            assert await runs.status("/a") == "paused"
        async with process(tmp_path, resume=rest) as runs:
            assert await runs.status("/a") == "paused"
            assert not (await runs.streams.stream("/a").head()).stream_closed
            assert await runs.resume("/a")
            await runs.wait("/a")
            assert not await runs.resume("/a")
            assert await text(runs) == "halfhalf and the rest"

    asyncio.run(main())


def test_turns_of_a_conversation_share_a_stream(tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path, ending=ag_ui) as runs:
            with pytest.raises(ValueError, match="id"):
                await runs.start("/a", ["x"], closes=False)
            for turn in ("1", "1", "2"):  # a request that comes twice
                hello = ag_ui_message(
                    {"id": turn, "role": "user", "parts": [{"type": "text", "content": "hi"}]}
                )
                await runs.start("/a", hello, id=turn, closes=False)
                await runs.wait("/a", id=turn)
                assert await runs.status("/a", id=turn) == "complete"
            found = await messages(runs)
            assert [one["messageId"] for one in found] == ["1"] * 3 + ["2"] * 3
            begun = asyncio.Event()
            await runs.start("/a", endless(begun), id="3", closes=False)
            await begun.wait()
            await runs.stop("/a", id="3")
            assert (await messages(runs))[-1]["type"] == "RUN_ERROR"
            assert not (await runs.streams.stream("/a").head()).stream_closed

    asyncio.run(main())


def test_an_end_that_was_stored_by_half_is_completed(tmp_path: Path) -> None:
    """A process can end between any two steps of the end of a run."""

    async def main(steps: int) -> None:
        folder = tmp_path / str(steps)
        begun = asyncio.Event()
        async with killed_process(folder) as runs:
            await runs.start("/a", endless(begun, "half"))
            await begun.wait()
            run = runs._active[next(iter(runs._active))]
            key = run._record.key
            if steps >= 1:
                await runs._records.end(key, "stopped")
            if steps >= 2:
                await run.stream.append({"type": "abort"}, producer=ProducerStamp(f"end-of-run-{key}", 0, 0))
            if steps >= 3:
                await run.stream.close()
        async with process(folder) as runs:
            assert await runs.status("/a") == ("stopped" if steps else "interrupted")
            assert len(await messages(runs)) == 2
            assert (await runs.streams.stream("/a").head()).stream_closed
            assert await nothing_is_left(runs)

    for steps in range(4):
        asyncio.run(main(steps))


def test_without_a_run_there_is_no_stream(tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path) as runs:
            assert not await runs.stop("/a")
            assert not await runs.pause("/a")
            with pytest.raises(StreamNotFoundError):
                await runs.streams.stream("/a").head()

    asyncio.run(main())


def test_a_stream_of_another_kind_is_not_written(tmp_path: Path) -> None:
    async def main() -> None:
        async with process(tmp_path) as runs:
            await runs.streams.create("/a", content_type=TEXT)
            with pytest.raises(StreamExistsError):
                await runs.start("/a", [1])
            assert await nothing_is_left(runs)

    asyncio.run(main())


def test_runs_of_another_name_are_left_alone(tmp_path: Path) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        async with process(tmp_path) as runs:
            with pytest.raises(ValueError, match="name="):
                Runs(runs.streams)
        async with killed_process(tmp_path, name="others") as runs:
            await runs.start("/a", endless(begun, "half"))
            await begun.wait()
        async with process(tmp_path) as runs:
            assert not (await runs.streams.stream("/a").head()).stream_closed
        async with process(tmp_path, name="others") as runs:
            assert await runs.status("/a") == "interrupted"

    asyncio.run(main())


def test_an_overloaded_server_costs_a_run_nothing(tmp_path: Path) -> None:
    """Appends that are refused for overload (H4) are repeated, and stored once."""

    async def main() -> None:
        async with process(tmp_path) as runs:
            routes = await runs.streams.open()
            refuse, refusals = routes.admission.refusal, [problems.OVERLOADED] * 2

            def overloaded() -> Any:
                return refusals.pop() if refusals else refuse()

            async def answer(_run: Run) -> AsyncIterator[int]:
                routes.admission.refusal = overloaded  # type: ignore[method-assign]
                for number in range(20):
                    yield number
                    await asyncio.sleep(0)

            await runs.start("/a", answer)
            await runs.wait("/a")
            assert refusals == []
            assert await messages(runs) == list(range(20))

    asyncio.run(main())


@pytest.mark.parametrize("how", ["close", "delete"])
def test_a_stream_that_somebody_else_ends_ends_its_run(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        gone = asyncio.Event()
        begun = asyncio.Event()

        async def answer(_run: Run) -> AsyncIterator[str]:
            yield "half"
            begun.set()
            await gone.wait()
            yield "more"

        async with process(tmp_path) as runs:
            await runs.start("/a", answer)
            await begun.wait()
            await getattr(runs.streams.stream("/a"), how)()
            gone.set()
            await runs.wait("/a")
            assert await runs.status("/a") == "failed"
            assert await nothing_is_left(runs)

    asyncio.run(main())
    assert "a run failed: /a" in caplog.text


def test_a_run_that_has_shown_nothing_is_started_again(tmp_path: Path) -> None:
    """A process can end between the record of a run and the creation of its stream."""

    async def main() -> None:
        async with process(tmp_path) as runs:
            await runs._records.begin(Record("/a", "", None, "text/plain", True))
        async with process(tmp_path) as runs:
            assert await runs.status("/a") is None
            assert await runs.start("/a", ["hello"], content_type=TEXT)
            await runs.wait("/a")
            assert await text(runs) == "hello"

    asyncio.run(main())


def test_calls_that_come_together_do_it_once(tmp_path: Path) -> None:
    async def rest(_run: Run) -> AsyncIterator[str]:
        yield "rest"

    async def main() -> None:
        begun = asyncio.Event()
        async with process(tmp_path) as runs:
            await runs.start("/a", endless(begun, "half "), content_type=TEXT)
            await begun.wait()
            await asyncio.gather(*(runs.pause("/a") for _ in range(3)))
            assert sorted(await asyncio.gather(*(runs.resume("/a", rest) for _ in range(3)))) == [0, 0, 1]
            await runs.wait("/a")
            assert await text(runs) == "half rest"
            begun.clear()
            await runs.start("/b", endless(begun, "half"))
            await begun.wait()
            await asyncio.gather(*(runs.stop("/b") for _ in range(3)))
            assert await messages(runs, "/b") == ["half", {"type": "abort"}]

    asyncio.run(main())
