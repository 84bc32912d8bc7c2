"""Receive webhooks in FastAPI: verify each, read what is new, and acknowledge it by the answer.

    millstream serve &
    STREAMS=http://127.0.0.1:4437 uvicorn --app-dir examples webhook_receiver:app --port 8000 &
    millstream subscribe create orders --webhook http://127.0.0.1:8000/hook --pattern 'orders/**'
    millstream create /orders/1 --content-type application/json
    millstream append /orders/1 --message '{"item": "book"}'

The server repeats a webhook until it is answered with `{"done": true}`. So handle what comes again, too: here
the seen offsets are in memory, where an application would note them with its own data.
"""

import os

from fastapi import FastAPI, HTTPException, Request

from millstream.aio import stream
from millstream.aio.subscriptions import WebhookError, WebhookVerifier

STREAMS = os.environ.get("STREAMS", "http://127.0.0.1:4437")

app = FastAPI()
verifier = WebhookVerifier(f"{STREAMS}/__ds/jwks.json", subscriptions={"orders"})
orders: list[dict[str, object]] = []
seen: dict[str, str] = {}


@app.post("/hook")
async def hook(request: Request) -> dict[str, bool]:
    """Handle what is new in the streams that a webhook names."""
    try:
        wake = await verifier.verify(await request.body(), request.headers)
    except WebhookError as error:
        raise HTTPException(error.status or 401, error.code) from None
    for link in wake.pending:
        start = max(seen.get(link.path, ""), link.acked_offset)
        async with stream(f"{STREAMS}/{link.path}", offset=start, live=False) as response:
            async for batch in response.iter_json_batches():
                orders.extend(batch.items)
                seen[link.path] = batch.offset
    return {"done": True}


@app.get("/orders")
async def list_orders() -> list[dict[str, object]]:
    """Show what was received."""
    return orders
