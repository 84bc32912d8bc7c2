"""A FastAPI application whose answers are durable: `uvicorn agents_kit.chats:api`, for the npm transports.

Answers wait for their `gate`: a test opens it, so that it decides what is written when.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request, Response

from millstream.agents import Run, Runs, durable_response, reconnect_response
from millstream.agents.endings import ag_ui, ag_ui_message
from millstream.asgi import MillstreamApp

streams = MillstreamApp(data=os.environ["CHATS_DATA"])
WORDS = ["Nothing ", "is ", "lost."]
gates: dict[str, asyncio.Event] = {}


def gate(chat: str) -> asyncio.Event:
    return gates.setdefault(chat, asyncio.Event())


async def ai_sdk_answer(run: Run) -> AsyncIterator[dict[str, Any]]:
    stored = await run.messages()
    words = sum(chunk["type"] == "text-delta" for chunk in stored)
    if not stored:
        yield {"type": "start", "messageId": "m1"}
        yield {"type": "text-start", "id": "t1"}
    if words:
        await gate(run.path).wait()
    for word in WORDS[words:]:
        yield {"type": "text-delta", "id": "t1", "delta": word}
        if word == WORDS[0]:
            await gate(run.path).wait()
    yield {"type": "text-end", "id": "t1"}
    yield {"type": "finish"}


async def ag_ui_answer(run: Run) -> AsyncIterator[dict[str, Any]]:
    for event in ag_ui_message(run.input):
        yield event
    yield {"type": "RUN_STARTED", "runId": run.id}
    yield {"type": "TEXT_MESSAGE_START", "messageId": f"answer-{run.id}", "role": "assistant"}
    for word in WORDS:
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": f"answer-{run.id}", "delta": word}
    yield {"type": "TEXT_MESSAGE_END", "messageId": f"answer-{run.id}"}
    yield {"type": "RUN_FINISHED", "runId": run.id}


runs = Runs(streams, resume=ai_sdk_answer if os.environ.get("CHATS_RESUME") else None)
sessions = Runs(streams, name="sessions", ending=ag_ui)
api = FastAPI(lifespan=streams.lifespan)
api.mount("/streams", streams)


@api.post("/api/chat")
async def chat(request: Request) -> Response:
    body = await request.json()
    return await durable_response(ai_sdk_answer, f"/chat/{body['id']}", runs=runs)


@api.get("/api/chat/{id}/stream")
async def reconnect(id: str) -> Response:
    return await reconnect_response(f"/chat/{id}", runs=runs)


@api.post("/api/chat/{id}/stop")
async def stop(id: str) -> bool:
    return await runs.stop(f"/chat/{id}")


@api.post("/api/chat/{id}/go")
async def go(id: str) -> None:
    gate(f"/chat/{id}").set()


@api.post("/api/session")
async def session(request: Request, id: str) -> Response:
    message = (await request.json())["messages"][-1]
    path = f"/session/{id}"
    return await durable_response(
        ag_ui_answer, path, runs=sessions, id=message["id"], input=message, closes=False
    )
