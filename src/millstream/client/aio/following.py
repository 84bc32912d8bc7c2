"""Following many streams with awaited calls. The plan is in core/following.py; the twin of sync/following."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Self

from millstream.client.aio.driving import Drive
from millstream.client.aio.streams import DEFAULT_TIMEOUT_S
from millstream.client.core.exchanges import FollowedChunk, Terms
from millstream.client.core.models import HeadersLike, StreamBatch
from millstream.client.core.plans.following import Follower, Streams, batch
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.core.transport import AsyncTransport
from millstream.client.http.aio_sockets import shared_client


def follow_many(
    url: str,
    streams: Streams = (),
    *,
    globs: Iterable[str] = (),
    from_beginning: bool = False,
    globs_from: str | None = None,
    headers: HeadersLike | None = None,
    timeout: float = DEFAULT_TIMEOUT_S,
    retry: Retry | None = DEFAULT,
    client: AsyncTransport | None = None,
) -> "Following":
    """Follow streams of the server at `url` on one connection; gives pairs of a path and a batch.

    `streams` are paths with offsets, or only paths: these, and streams that match `globs`, are followed from
    now on, or with `from_beginning` from their first message. A stream that is created while its glob is
    followed is always read from its first message. Ends when every stream has ended, unless there are globs.

    >>> ending = log.close([1, 2])
    >>> async def main():
    ...     async for where, batch in follow_many(server, {path: "-1"}):
    ...         print(where == path, batch.items, batch.stream_closed)
    >>> asyncio.run(main())
    True [[1, 2]] True
    """
    follower = Follower(
        url,
        headers,
        Terms(retry, timeout),
        streams,
        globs,
        from_beginning=from_beginning,
        globs_from=globs_from,
    )
    return Following(follower, client)


class Following:
    """Streams that are followed together: iterate over it, once.

    >>> async def main():
    ...     async with follow_many(server, [path]) as following:
    ...         async for _, batch in following:
    ...             return following.positions == {path: batch.offset}
    >>> asyncio.run(main())
    True
    """

    def __init__(self, follower: Follower, transport: AsyncTransport | None) -> None:
        self._follower = follower
        self._transport = transport
        self._drive: Drive | None = None

    @property
    def positions(self) -> dict[str, str]:
        """Where to resume: the offset of each stream after its last batch, without those that have ended."""
        return dict(self._follower.positions)

    @property
    def globs_from(self) -> str:
        """Where globs are resumed: pass it with `positions` to another `follow_many`."""
        return self._follower.globs_from

    def __aiter__(self) -> AsyncIterator[tuple[str, StreamBatch]]:
        return self._batches()

    async def _batches(self) -> AsyncGenerator[tuple[str, StreamBatch], None]:
        drive = self._drive = Drive(self._transport or shared_client(), self._follower.plan())
        try:
            while (chunk := await drive.next()) is not None:
                if isinstance(chunk, FollowedChunk):
                    yield chunk.path, batch(chunk)
        finally:
            drive.close()

    async def cancel(self) -> None:
        """Stop. Iterators end."""
        if self._drive is not None:
            self._drive.cancel()
            with contextlib.suppress(ValueError):  # another task runs the plan, and closes it when it wakes
                self._drive.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cancel()

    def __del__(self) -> None:
        drive: Drive | None = getattr(self, "_drive", None)
        if drive is not None:
            with contextlib.suppress(ValueError, RuntimeError):  # in use, or its loop is closed
                drive.close()
