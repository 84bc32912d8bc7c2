"""An A2A server whose agent counts, one artifact chunk for each line that a test appends to a stream.

STREAMS is the URL above its streams, COUNTS the stream of lines:

    uvicorn --factory agents_kit.a2a_server:application
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from millstream.agents.a2a import StreamTasks
from millstream.aio import stream


def card(url: str) -> AgentCard:
    return AgentCard(
        name="counter",
        description="Counts",
        version="1",
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[AgentSkill(id="count", name="count", description="Counts", tags=["count"])],
    )


class Counter(AgentExecutor):
    """Says what the test says."""

    def __init__(self, counts: str) -> None:
        self._counts = counts

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        if context.current_task is None:
            task = new_task_from_user_message(context.message)
            task.id, task.context_id = str(context.task_id), str(context.context_id)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, str(context.task_id), str(context.context_id))
        await updater.start_work()
        is_first = True
        async with stream(self._counts) as response:
            async for line in response.iter_json():
                await updater.add_artifact(
                    [new_text_part(line)], artifact_id="1", name="count", append=not is_first
                )
                is_first = False
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).cancel()


def handler(tasks: StreamTasks, counts: str, url: str = "http://127.0.0.1/") -> DefaultRequestHandler:
    return DefaultRequestHandler(Counter(counts), task_store=tasks, event_stream=tasks, agent_card=card(url))


def application() -> Starlette:
    """Make the application that uvicorn serves."""
    tasks = StreamTasks(os.environ["STREAMS"])
    handling = handler(tasks, os.environ["COUNTS"], os.environ["URL"])

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if os.environ.get("RECOVERS"):
            await tasks.fail_running()
        yield
        await handling.aclose()

    routes = [*create_jsonrpc_routes(handling, "/"), *create_agent_card_routes(card(os.environ["URL"]))]
    return Starlette(routes=routes, lifespan=lifespan)
