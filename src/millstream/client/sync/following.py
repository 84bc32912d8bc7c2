"""Following many streams with blocking calls. The plan is in core/following.py; the twin of aio/following."""

import contextlib
from collections.abc import Iterable, Iterator

from millstream.client.core.exchanges import FollowedChunk, Terms
from millstream.client.core.models import HeadersLike, StreamBatch
from millstream.client.core.plans.following import Follower, Streams, batch
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.core.transport import Transport
from millstream.client.http.sync_sockets import shared_client
from millstream.client.sync.driving import Cancellable, Drive
from millstream.client.sync.streams import DEFAULT_TIMEOUT_S


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
    client: Transport | None = None,
) -> "Following":
    """Follow streams of the server at `url` on one connection; gives pairs of a path and a batch.

    `streams` are paths with offsets, or only paths: these, and streams that match `globs`, are followed from
    now on, or with `from_beginning` from their first message. A stream that is created while its glob is
    followed is always read from its first message. Ends when every stream has ended, unless there are globs.

    >>> log.append_all([1, 2]).next_offset[-1]
    '4'
    >>> log.close().final_offset[-1]
    '4'
    >>> for where, batch in follow_many(server, {path: "-1"}):
    ...     print(where == path, batch.items, batch.stream_closed)
    True [1, 2] True
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
    return Following(follower, client or shared_client())


class Following(Cancellable):
    """Streams that are followed together: iterate over it, once.

    >>> with follow_many(server, [path]) as following:
    ...     _, batch = next(iter(following))
    ...     following.positions == {path: batch.offset}
    True
    """

    def __init__(self, follower: Follower, transport: Transport) -> None:
        self._follower = follower
        self._drive = Drive(transport, follower.plan())

    @property
    def positions(self) -> dict[str, str]:
        """Where to resume: the offset of each stream after its last batch, without those that have ended."""
        return dict(self._follower.positions)

    @property
    def globs_from(self) -> str:
        """Where globs are resumed: pass it with `positions` to another `follow_many`."""
        return self._follower.globs_from

    def __iter__(self) -> Iterator[tuple[str, StreamBatch]]:
        try:
            while (chunk := self._drive.next()) is not None:
                if isinstance(chunk, FollowedChunk):
                    yield chunk.path, batch(chunk)
        finally:
            self._drive.close()

    def cancel(self) -> None:
        """Stop, from any thread. Iterators end."""
        self._drive.scope.cancel()
        with contextlib.suppress(ValueError):  # another thread runs the plan, and closes it when it wakes
            self._drive.close()
