"""The public Python client, `durable-streams` on PyPI, talks to each server, sync and async.

Its 0.1.0 was published before streams could be closed. So here a stream is closed by a writer whose
handle adds `Stream-Closed: true`, and the end shows itself the old way: an SSE session ends, and a
long-poll at the tail comes back at once with the header. It does not decode base64 either, so
binary content is tailed by long-poll only.
"""

import asyncio
import json
import queue
import uuid
from collections.abc import AsyncGenerator, Callable
from threading import Thread
from typing import Any, Literal

import pytest
from durable_streams import AsyncDurableStream, DurableStream, SeqConflictError, StreamNotFoundError, stream

from public.clients.contents import ALL, Content
from running import Server

Mode = Literal["bytes", "text", "json"]
MODES: dict[str, Mode] = {"text": "text", "json": "json", "binary": "bytes"}
TAILS = [
    ("text", "long-poll"),
    ("text", "sse"),
    ("json", "long-poll"),
    ("json", "sse"),
    ("binary", "long-poll"),
]
DELIVERY_TIMEOUT_S = 60
CLOSING = {"Stream-Closed": "true"}


def payloads(content: Content, mode: Mode) -> list[Any]:
    """The messages in the shape that the client takes and gives."""
    shapes: dict[Mode, Callable[[bytes], Any]] = {"bytes": bytes, "text": bytes.decode, "json": json.loads}
    return [shapes[mode](message) for message in content.messages]


def arrived(mode: Mode, data: Any) -> list[Any]:
    """One event's payloads: a JSON event holds many, the others one."""
    return list(data) if mode == "json" else [data]


@pytest.fixture
def url(server: Server) -> str:
    return f"{server.url}/pypi/{uuid.uuid4()}"


@pytest.mark.parametrize(("kind", "live"), TAILS)
def test_a_sync_reader_gets_every_message_live_and_then_the_end(url: str, kind: str, live: Any) -> None:
    content, mode = ALL[kind], MODES[kind]
    messages = payloads(content, mode)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        try:
            with reader.stream(offset="-1", live=live) as session:
                left = len(messages)
                for event in session.iter_events(mode=mode):
                    for payload in arrived(mode, event.data):
                        inbox.put(payload)
                        left -= 1
                    if left == 0 and live == "long-poll":  # 0.1.0 would poll a closed stream for ever
                        break
        except Exception as error:
            inbox.put(error)  # shows in the assertion that waits for a message

    with (
        DurableStream.create(url, content_type=content.content_type) as writer,
        DurableStream.connect(url) as reader,
        DurableStream(url, content_type=content.content_type, headers={**CLOSING}) as closer,
    ):
        thread = Thread(target=read, daemon=True)
        thread.start()
        for message in messages[:-1]:
            writer.append(message)
            assert inbox.get(timeout=DELIVERY_TIMEOUT_S) == message
        final = closer.append(messages[-1]).next_offset
        assert inbox.get(timeout=DELIVERY_TIMEOUT_S) == messages[-1]
        thread.join(DELIVERY_TIMEOUT_S)
        assert not thread.is_alive(), "the reader did not see the end of the stream"

        assert writer.head().offset == final
        with pytest.raises(SeqConflictError):  # what 0.1.0 makes of any 409
            writer.append(messages[0])
    with stream(url, offset=final, live="long-poll") as session:
        assert (session.status, session.headers["stream-closed"]) == (204, "true")


@pytest.mark.parametrize(("kind", "live"), TAILS)
def test_an_async_reader_gets_every_message_live_and_then_the_end(url: str, kind: str, live: Any) -> None:
    content, mode = ALL[kind], MODES[kind]
    messages = payloads(content, mode)

    async def tail(reader: AsyncDurableStream) -> AsyncGenerator[Any, None]:
        async with reader.stream(offset="-1", live=live) as session:
            async for event in session.iter_events(mode=mode):
                for payload in arrived(mode, event.data):
                    yield payload

    async def conversation() -> None:
        async with (
            await AsyncDurableStream.create(url, content_type=content.content_type) as writer,
            await AsyncDurableStream.connect(url) as reader,
            AsyncDurableStream(url, content_type=content.content_type, headers={**CLOSING}) as closer,
        ):
            delivered = tail(reader)
            for message in messages:
                next_delivery = asyncio.ensure_future(anext(delivered))
                await (closer if message is messages[-1] else writer).append(message)
                assert await asyncio.wait_for(next_delivery, DELIVERY_TIMEOUT_S) == message
            if live == "sse":
                with pytest.raises(StopAsyncIteration):
                    await asyncio.wait_for(anext(delivered), DELIVERY_TIMEOUT_S)
            await delivered.aclose()

    asyncio.run(conversation())


@pytest.mark.parametrize("kind", ALL)
def test_a_whole_stream_is_read_back_as_it_was_written(url: str, kind: str) -> None:
    content, mode = ALL[kind], MODES[kind]
    messages = payloads(content, mode)
    with DurableStream.create(url, content_type=content.content_type) as writer:
        for message in messages:
            writer.append(message)
    with stream(url, live=False) as session:
        if mode == "json":
            assert session.read_json() == messages
        else:
            assert session.read_bytes() == b"".join(content.messages)


def test_a_deleted_stream_is_gone(url: str) -> None:
    with DurableStream.create(url, content_type="text/plain") as handle:
        handle.delete()
        with pytest.raises(StreamNotFoundError):
            handle.head()
