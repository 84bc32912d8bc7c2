"""A FastAPI application whose handlers use `millstream.aio`, as a user would write it.

`uvicorn python_client.fast_application:app`, with the server of streams in `STREAMS_URL`.
"""

import asyncio
import os
from collections.abc import AsyncIterator

import fastapi
from fastapi.responses import StreamingResponse

from millstream import aio

STREAMS_URL = os.environ["STREAMS_URL"]

app = fastapi.FastAPI()


@app.get("/loop")
async def loop() -> str:
    return type(asyncio.get_running_loop()).__module__


@app.post("/chats/{name}")
async def answer(name: str) -> dict[str, object]:
    chat = await aio.DurableStream.create(f"{STREAMS_URL}/chats/{name}", content_type="application/json")
    async with aio.IdempotentProducer(chat, "model") as producer:
        for token in ("Hello", ", ", "world"):
            await producer.append({"token": token})
        end = await producer.close({"token": "."})
    return {"url": chat.url, "offset": end.final_offset}


@app.get("/chats/{name}")
async def follow(name: str, live: str = "sse") -> StreamingResponse:
    async def tokens() -> AsyncIterator[str]:
        async with aio.stream(f"{STREAMS_URL}/chats/{name}", live=live) as response:
            async for message in response.iter_json():
                yield message["token"]

    return StreamingResponse(tokens(), media_type="text/plain")
