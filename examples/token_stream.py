"""Resumable tokens: `uvicorn token_stream:api --app-dir examples`, then open http://127.0.0.1:8000.

Reload the page, kill the server, start it again: the answer goes on where it was.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.responses import FileResponse

from millstream.agents import Run, Runs, durable_response
from millstream.asgi import MillstreamApp

ANSWER = """A stream is a place, not a connection. What is written stays, in order, and has an
address; so a reader that is cut off comes back with the last offset it saw, and misses nothing."""


async def answer(run: Run) -> AsyncIterator[str]:
    """Stand for a language model, which is given what it has said already."""
    for word in ANSWER.split()[len((await run.text()).split()) :]:
        await asyncio.sleep(0.1)
        yield word + " "


streams = MillstreamApp(data="streams")
runs = Runs(streams, resume=answer)
api = FastAPI(lifespan=streams.lifespan)
api.mount("/streams", streams)
api.get("/", response_class=FileResponse)(lambda: Path(__file__).with_suffix(".html"))


@api.post("/ask/{chat}")
async def ask(chat: str) -> Response:
    """Begin the answer, once, and say where it is read."""
    return await durable_response(answer, f"/chat/{chat}", runs=runs, content_type="text/plain")
