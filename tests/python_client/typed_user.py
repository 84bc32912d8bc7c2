"""A user's file: everything public, used as its types say. Checked by mypy and pyright, never run."""

import asyncio
from collections.abc import Iterator
from typing import Any, assert_type

from millstream import (
    AppendResult,
    ByteChunk,
    CloseResult,
    DurableStream,
    HeadResult,
    HttpClient,
    IdempotentProducer,
    JsonBatch,
    ProducerStamp,
    Retry,
    StreamClosedError,
    StreamResponse,
    Subscription,
    TextChunk,
    aio,
    stream,
)


def write(url: str) -> CloseResult:
    log = DurableStream.create(url, content_type="application/json", ttl_seconds=60, body=[{"n": 1}])
    assert_type(log.append({"event": "start"}), AppendResult)
    assert_type(log.append("x", seq="1", producer=ProducerStamp("p", 0, 0)).next_offset, str)
    assert_type(log.append_all(range(3)), AppendResult | None)
    assert_type(log.append("x", expected_offset="now"), AppendResult)
    assert_type(log.update(lambda messages: {"total": len(messages)}), AppendResult | None)
    with log.multipart(part_bytes=1024) as batch:
        batch.write({"n": 1})
        assert_type(batch.commit(close=False), AppendResult | None)
    log.stage_part("task-1", [1, 2])
    assert_type(log.commit_parts(["task-1"], producer=ProducerStamp("p", 0, 0)), AppendResult)
    log.drop_part("task-1")
    assert_type(log.head(), HeadResult)
    assert_type(DurableStream.head(url), HeadResult)
    assert_type(DurableStream.head(url, headers={"Authorization": lambda: "Bearer x"}), HeadResult)
    assert_type(log.fork("/other", offset="now"), DurableStream)
    log.delete()
    DurableStream.delete(url)
    try:
        return log.close({"event": "end"})
    except StreamClosedError as error:
        return CloseResult(error.final_offset or "-1")


def read(url: str) -> Iterator[Any]:
    with stream(url, offset="-1", live="sse", retry=Retry(max_total_s=5), params={"a": None}) as response:
        assert_type(response, StreamResponse)
        assert_type(response.stream_closed, bool)
        assert_type(response.offset, str)
        yield from response.iter_json()
    with HttpClient() as client, stream(url, live=False, client=client) as response:
        for batch in response.iter_json_batches():
            assert_type(batch, JsonBatch[Any])
            assert_type(batch.cursor, str | None)
    assert_type(stream(url, live=False).read_bytes(), bytes)
    assert_type(stream(url, live=False).read_text(), str)
    assert_type(stream(url, live=False).read_json(), list[Any])


def show(chunk: ByteChunk) -> None:
    print(chunk.data.hex(), chunk.stream_closed)


def produce(log: DurableStream) -> None:
    assert_type(stream(log.url).subscribe_bytes(show), Subscription)
    with IdempotentProducer(log, "job-1", auto_claim=True, on_error=print) as producer:
        producer.append({"n": 1})
        producer.flush()
        assert_type(producer.last_offset, str | None)
    assert_type(producer.close({"n": 2}), CloseResult)


async def token() -> str:
    return "Bearer x"


async def print_text(chunk: TextChunk) -> None:
    print(chunk.data)


async def use(url: str) -> None:
    log = await aio.DurableStream.create(url, headers={"Authorization": token})
    assert_type(log, aio.DurableStream)
    assert_type(await log.append(b"x"), AppendResult)
    async with log.multipart() as batch:
        await batch.write_all([b"x"])
    assert_type(batch.result, AppendResult | None)
    assert_type(await log.commit_parts(["a", "b"]), AppendResult)
    assert_type(await log.head(), HeadResult)
    assert_type(await aio.DurableStream.head(url), HeadResult)
    async with log.stream(live=True) as response:
        assert_type(response, aio.StreamResponse)
        async for chunk in response.iter_byte_chunks():
            assert_type(chunk, ByteChunk)
    response = await aio.stream(url)
    await response.subscribe_text(print_text).wait(timeout=5)
    await response.cancel()
    async with aio.IdempotentProducer(log, "job-1") as producer:
        await producer.append(b"x")
    assert_type(await log.close(), CloseResult)


if __name__ == "__main__":
    asyncio.run(use("http://127.0.0.1:4437/log"))
