"""Appends that come while a round waits for their stream's lock are part of it."""

import asyncio

import asyncpg

from engines.driving import TEXT
from millstream.protocol.requests import AppendRequest, CreateRequest, ReadRequest
from millstream.protocol.streams import Append
from millstream.store.pending import settled
from millstream.store.postgres.opening import postgres_store
from postgres.cluster import shared

NOW_MS = 1_000_000
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rounds' AND wait_event_type = 'Lock'"
)


async def wait_for_a_lock(url: str) -> None:
    """Hold a stream's lock, append, and append more while the first append waits."""
    store = postgres_store(f"{url}&application_name=rounds")
    await store.open()
    other = await asyncpg.connect(url)
    try:
        for name in ("/s", "/other"):
            await settled(store.create(name, CreateRequest(b"", TEXT), NOW_MS))
        store.cache.by_name["/s"].contended_until_s = float("inf")

        def append(number: int, name: str = "/s") -> asyncio.Task[object]:
            request = AppendRequest(b"%02d" % number, TEXT, closes=False, stamp=None, seq=None)
            pending = store.append(name, request, NOW_MS)
            return asyncio.ensure_future(settled(pending))

        written: list[int] = []  # how large each row of content is
        note = store.rounds.on_written

        def note_row(id: int, start: int, size: int) -> None:
            written.append(size)
            note(id, start, size)

        store.rounds.on_written = note_row
        async with other.transaction():
            await other.execute("SELECT FROM streams WHERE name = '/s' FOR UPDATE")
            appends = [append(0)]
            for pause_s in [0.01] * 6000:
                if await other.fetchval(WAITING):
                    break
                await asyncio.sleep(pause_s)
            appends += [append(number) for number in range(1, 20)]
            elsewhere = append(100, "/other")
        assert all(isinstance(found, Append) for found in await asyncio.gather(*appends))
        await elsewhere
        assert sorted(written) == [3, 2 * 20]  # one row for all that waited: nothing was written in between
        chunk = await settled(store.read("/s", ReadRequest(), 10**6, NOW_MS))
        assert chunk.data == b"".join(b"%02d" % number for number in range(20))  # type: ignore[union-attr]
    finally:
        await other.close()
        await store.close()


def test_what_comes_while_a_lock_is_waited_for_shares_the_transaction() -> None:
    cluster = shared()
    asyncio.run(wait_for_a_lock(cluster.url(cluster.new_schema())))
