"""A server that holds the end of a long stream serves its beginning: what a read needs stays in memory."""

import asyncio

import pytest

from engines.driving import TEXT
from millstream.protocol.offsets import START
from millstream.protocol.reads import Chunk
from millstream.protocol.requests import AppendRequest, CreateRequest, ReadRequest
from millstream.protocol.streams import Append
from millstream.store.pending import settled
from millstream.store.postgres.opening import postgres_store
from postgres.cluster import shared

NOW_MS = 1_000_000
MIB = 2**20


async def read_back(url: str, sizes: list[int]) -> None:
    """Append pieces, and read all of them twice through the store that has them in its memory, in part."""
    store = postgres_store(url)
    await store.open()
    try:
        await settled(store.create("/s", CreateRequest(b"", TEXT), NOW_MS))
        for number, size in enumerate(sizes):
            data = bytes([number % 251]) * size
            request = AppendRequest(data, TEXT, closes=False, stamp=None, seq=None)
            assert isinstance(await settled(store.append("/s", request, NOW_MS + number)), Append)
        for _ in range(2):
            found, offset, is_whole = b"", START, False
            while not is_whole:
                async with asyncio.timeout(20):
                    chunk = await settled(store.read("/s", ReadRequest(offset), 64 * MIB, NOW_MS))
                assert isinstance(chunk, Chunk)
                found += chunk.data
                offset, is_whole = chunk.end, chunk.up_to_date
            assert found == b"".join(bytes([number % 251]) * size for number, size in enumerate(sizes))
    finally:
        await store.close()


@pytest.mark.parametrize(
    "sizes", [[MIB] * 12, [6 * MIB, 1, 6 * MIB, 1], [3000] * 3000], ids=["long", "large messages", "small"]
)
def test_the_beginning_is_read_where_the_end_is_held(sizes: list[int]) -> None:
    cluster = shared()
    asyncio.run(read_back(cluster.url(cluster.new_schema()), sizes))
