"""A2A tasks in streams, with the SDK's own handler, client and events, on replicas that are killed."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, create_client
from a2a.helpers.proto_helpers import new_text_message, new_text_part
from a2a.server.cluster import ConcurrentTaskModificationError, StoredTask, TaskVersion
from a2a.server.context import ServerCallContext
from a2a.types import (
    Artifact,
    ListTasksRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from agents_kit.a2a_server import card
from agents_kit.programs import durable
from millstream import DurableStream as SyncStream
from millstream.agents import a2a
from millstream.agents.a2a import StreamTasks
from millstream.aio import DurableStream
from python_client.faulty_proxy import Fault, FaultyProxy
from running import Server, free_port, listening_on, started

ANYONE = ServerCallContext()
WORKING, FAILED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_FAILED
COMPLETED, CANCELED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_CANCELED


def task_of(id: str = "1", state: Any = WORKING) -> Task:
    task = Task(id=id, context_id="c", status=TaskStatus(state=state))
    task.metadata.update({"big": 2**53, "text": "ä", "list": [1, None, {"x": 0.1}]})
    return task


def chunk(text: str, *, append: bool, id: str = "1") -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id="a", parts=[new_text_part(text)])
    return TaskArtifactUpdateEvent(task_id=id, context_id="c", artifact=artifact, append=append)


def status(state: Any, id: str = "1") -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id=id, context_id="c", status=TaskStatus(state=state))


async def save(
    tasks: StreamTasks, stored: StoredTask | None, event: Any, task: Task | None = None
) -> StoredTask:
    """Save as the SDK's TaskManager does: the event is applied to the task first."""
    changed = Task()
    changed.CopyFrom(task or (stored.task if stored else event))
    if task is None and stored is not None:
        a2a.apply(changed, event)
    version = stored.version if stored else TaskVersion.MISSING
    version = await tasks.save(changed, event=event, prev=None, prev_version=version, context=ANYONE)
    return StoredTask(changed, version)


def test_a_task_comes_back_as_it_was_whatever_was_written_of_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a2a, "_SMALL_BYTES", 200)

    async def run() -> None:
        tasks = StreamTasks(url)
        stored = await save(tasks, None, task_of())
        events: list[Any] = [chunk("0", append=False), *(chunk(f"{n}", append=True) for n in range(1, 40))]
        events.insert(7, status(TaskState.TASK_STATE_INPUT_REQUIRED))
        events[7].status.message.CopyFrom(new_text_message("Really?", role=Role.ROLE_AGENT))
        events[7].metadata.update({"added": True})
        for n, event in enumerate([*events, status(COMPLETED)], 2):
            if n % 10 == 5:
                tasks = StreamTasks(url)  # as after a restart
            stored = await save(tasks, stored, event)
            found = await StreamTasks(url).get("1", ANYONE)
            assert found == stored
            assert found == await tasks.get("1", ANYONE)
            assert found.version == TaskVersion(n)
        async with DurableStream(f"{url}/1").stream(live=False) as response:
            records = await response.read_json()
        assert 2 < sum("owner" in record for record in records) < 25

    asyncio.run(run())


def test_a_long_task_costs_as_much_as_its_events(url: str) -> None:
    async def run() -> None:
        tasks = StreamTasks(url)
        stored = await save(tasks, None, task_of())
        for n in range(400):
            stored = await save(tasks, stored, chunk("x" * 1000, append=n > 0))
        assert await StreamTasks(url).get("1", ANYONE) == stored
        head = await DurableStream(f"{url}/1").head()
        assert head.offset is not None
        assert int(head.offset.split("_")[1]) < 4 * 400 * 1300

    asyncio.run(run())


def test_of_two_writers_with_the_same_version_one_is_refused(url: str) -> None:
    async def run() -> None:
        one, other = StreamTasks(url), StreamTasks(url)
        stored = await save(one, None, task_of())
        with pytest.raises(ConcurrentTaskModificationError):
            await save(other, None, task_of())
        newer = await save(other, stored, chunk("a", append=False))
        for tasks in (one, other):
            with pytest.raises(ConcurrentTaskModificationError):
                await save(tasks, stored, chunk("b", append=False))
        with pytest.raises(ConcurrentTaskModificationError):
            await save(
                one, StoredTask(task_of("never"), TaskVersion(3)), chunk("b", append=False, id="never")
            )
        assert await one.get("1", ANYONE) == newer

    asyncio.run(run())


def test_cancelling_needs_no_version_but_a_task_that_has_not_ended(url: str) -> None:
    async def run() -> None:
        tasks = StreamTasks(url)
        canceled, event = task_of(state=CANCELED), status(CANCELED)
        with pytest.raises(ConcurrentTaskModificationError):
            await save(tasks, None, event, canceled)
        stored = await save(tasks, None, task_of())
        await save(StreamTasks(url), stored, chunk("a", append=False))
        after = await save(tasks, stored, event, canceled)
        found = await tasks.get("1", ANYONE)
        assert found == after
        with pytest.raises(ConcurrentTaskModificationError):
            await save(tasks, after, event, canceled)

    asyncio.run(run())


def test_tasks_belong_to_their_owners_and_are_listed_by_page(url: str) -> None:
    async def run() -> None:
        tasks = StreamTasks(url, owner_resolver=lambda context: context.state.get("owner", "ada"))
        bob = ServerCallContext(state={"owner": "bob"})
        for n in range(5):
            await save(tasks, None, task_of(f"t/{n} ü", COMPLETED if n % 2 else WORKING))
        await tasks.save(task_of("b"), event=None, prev=None, prev_version=TaskVersion.MISSING, context=bob)
        assert await tasks.get("b", ANYONE) is None
        assert await tasks.get("t/1 ü", bob) is None
        await tasks.delete("t/1 ü", bob)
        page = await tasks.list(ListTasksRequest(page_size=3), ANYONE)
        assert (len(page.tasks), page.total_size) == (3, 5)
        rest = await tasks.list(ListTasksRequest(page_size=3, page_token=page.next_page_token), ANYONE)
        assert {task.id for task in [*page.tasks, *rest.tasks]} == {f"t/{n} ü" for n in range(5)}
        done = await tasks.list(ListTasksRequest(status=COMPLETED), ANYONE)
        assert {task.id for task in done.tasks} == {"t/1 ü", "t/3 ü"}
        for _ in range(2):
            await tasks.delete("t/1 ü", ANYONE)
        assert await tasks.get("t/1 ü", ANYONE) is None
        assert (await tasks.list(ListTasksRequest(), ANYONE)).total_size == 4
        await save(tasks, None, task_of("t/1 ü"))
        assert await tasks.fail_running() == ["t/0 ü", "t/2 ü", "t/4 ü", "b", "t/1 ü"]
        assert await tasks.fail_running() == []
        found = await tasks.get("t/0 ü", ANYONE)
        assert found is not None
        assert found.task.status.state == FAILED

    asyncio.run(run())


@pytest.mark.parametrize("after", [0, 1, 3, 6])
def test_a_subscriber_gets_every_event_after_its_version_once(url: str, after: int) -> None:
    async def run() -> None:
        tasks = StreamTasks(url)
        stored = await save(tasks, None, task_of())
        for n in range(5):
            stored = await save(tasks, stored, chunk(f"{n}", append=n > 0))
        async with aclosing(StreamTasks(url).subscribe("1", after=TaskVersion(after))) as events:
            got = [await anext(events) for _ in range(6 - after)]
            following = asyncio.ensure_future(anext(events))
            await save(tasks, stored, status(COMPLETED))
            got.append(await following)
        assert [one.version for one in got] == [TaskVersion(n) for n in range(after + 1, 8)]
        assert got[-1].event == status(COMPLETED)
        if after == 0:
            assert got[0].event == task_of()

    asyncio.run(run())


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.FAIL_500_AFTER])
def test_what_is_lost_on_the_way_is_stored_once(server: Server, url: str, fault: Fault) -> None:
    posts = iter(range(10_000))
    choose = lambda request: fault if request.method == "POST" and next(posts) % 2 == 0 else None  # noqa: E731

    async def run(tasks: StreamTasks) -> None:
        stored = await save(tasks, None, task_of())
        for n in range(10):
            stored = await save(tasks, stored, chunk(f"{n}", append=n > 0))
        found = await StreamTasks(url).get("1", ANYONE)
        assert found == stored
        assert found.version == TaskVersion(11)

    with FaultyProxy(server.url, choose=choose) as proxy:
        asyncio.run(run(StreamTasks(url.replace(server.url, proxy.url))))
    assert proxy.counts[fault] >= 5


def replica(streams: str, counts: str, port: int, **environment: str) -> AbstractContextManager[Server]:
    """An A2A server under uvicorn, with its default settings."""
    command = [sys.executable, "-m", "uvicorn", "--factory", "agents_kit.a2a_server:application"]
    tests = str(Path(__file__).parents[1])
    given = {"STREAMS": streams, "COUNTS": counts, "URL": f"http://127.0.0.1:{port}/", "PYTHONPATH": tests}
    return started([*command, "--port", str(port)], listening_on(port), {**given, **environment})


def kill(server: Server) -> None:
    server.signal(signal.SIGKILL)
    server.wait_for_exit()


@asynccontextmanager
async def client_of(server: Server) -> AsyncIterator[Any]:
    async with httpx.AsyncClient(timeout=60) as http:
        yield await create_client(card(f"{server.url}/"), client_config=ClientConfig(httpx_client=http))


def text_of(response: Any) -> str:
    """The text that a response adds; of a task, what it has."""
    artifacts = response.task.artifacts if response.HasField("task") else [response.artifact_update.artifact]
    return "".join(part.text for artifact in artifacts for part in artifact.parts)


async def ask(server: Server) -> str:
    """Begin a task; it goes on when whoever asked has left."""
    request = SendMessageRequest(message=new_text_message("Count!", role=Role.ROLE_USER))
    async with client_of(server) as client, aclosing(client.send_message(request)) as responses:
        first = await anext(responses)
        return str(first.task.id)


async def follow(server: Server, task_id: str, until: str, begun: asyncio.Event | None = None) -> str:
    """Subscribe to a task, and read until a text; what came before the subscription is in the task."""
    text = ""
    request = SubscribeToTaskRequest(id=task_id)
    async with client_of(server) as client, aclosing(client.subscribe(request)) as responses:
        async for response in responses:
            text += text_of(response)
            if begun is not None:
                begun.set()
            if text.endswith(until) or response.status_update.status.state in (COMPLETED, FAILED):
                break
    return text


def test_a_subscriber_goes_on_after_restarts_of_its_server_and_of_the_streams(tmp_path: Path) -> None:
    port, stream_port = free_port(), str(free_port())

    async def run() -> None:
        with durable(tmp_path, stream_port) as streams:
            counts = SyncStream.create(f"{streams.url}/counts", content_type="application/json")
            with replica(f"{streams.url}/a2a", counts.url, free_port()) as runs_the_agent:
                task_id = await ask(runs_the_agent)
                with replica(f"{streams.url}/a2a", counts.url, port) as other:
                    counts.append_all("ab")
                    assert await follow(other, task_id, "b") == "ab"
                    kill(other)
                counts.append_all("cd")
                with replica(f"{streams.url}/a2a", counts.url, port) as other:
                    counts.append("e")
                    assert await follow(other, task_id, "e") == "abcde"
                    begun = asyncio.Event()
                    reading = asyncio.create_task(follow(other, task_id, "end", begun))
                    await asyncio.wait_for(begun.wait(), 60)  # nobody may subscribe to a task that has ended
                    kill(streams)
                    with durable(tmp_path, stream_port):
                        counts.append_all("fg")
                        counts.close()
                        assert await reading == "abcdefg"
                        found = await StreamTasks(f"{streams.url}/a2a").get(task_id, ANYONE)
                        assert found is not None
                        assert found.task.status.state == COMPLETED
                        assert [part.text for part in found.task.artifacts[0].parts] == list("abcdefg")

    asyncio.run(run())


def test_a_task_whose_process_was_killed_fails_when_it_starts_again(server: Server, url: str) -> None:
    port = free_port()

    async def run() -> None:
        counts = SyncStream.create(f"{url}/counts", content_type="application/json")
        with replica(f"{url}/a2a", counts.url, port) as runs_the_agent:
            task_id = await ask(runs_the_agent)
            counts.append("a")
            assert await follow(runs_the_agent, task_id, "a") == "a"
            kill(runs_the_agent)
        subscription = StreamTasks(f"{url}/a2a").subscribe(task_id, after=TaskVersion(0))
        with replica(f"{url}/a2a", counts.url, port, RECOVERS="1"):
            async with aclosing(subscription) as events:
                async for one in events:
                    if isinstance(one.event, TaskStatusUpdateEvent) and one.event.status.state == FAILED:
                        break
        found = await StreamTasks(f"{url}/a2a").get(task_id, ANYONE)
        assert found is not None
        assert found.task.status.state == FAILED
        assert found.task.artifacts[0].parts[0].text == "a"

    asyncio.run(run())
