"""Subscriptions of the async shell: methods are awaited. The twin of sync/subscriptions."""

from collections.abc import AsyncIterator, Iterable, Mapping

from millstream.client.aio.driving import run
from millstream.client.aio.streams import DEFAULT_TIMEOUT_S
from millstream.client.core.exchanges import Terms
from millstream.client.core.models import HeadersLike
from millstream.client.core.plans import writing
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.core.subscriptions import requests
from millstream.client.core.subscriptions.models import Acknowledged, RotatedKeys, SubscriptionInfo, Wake
from millstream.client.core.subscriptions.requests import Root
from millstream.client.core.transport import AsyncTransport
from millstream.client.http.aio_sockets import shared_client


class Subscriptions:
    """The subscriptions of the server at `url`, by their ids.

    Paths of streams are relative to `url`: `orders/1` is the stream at `{url}/orders/1`. In a `pattern`, `*`
    is one segment of a path and `**` any number of them.

    >>> async def main():
    ...     subscriptions = Subscriptions(server)
    ...     made = await subscriptions.create_pull("bills", "wake/bills", pattern="bills/**")
    ...     await subscriptions.delete("bills")
    ...     return made.type, made.wake_stream
    >>> asyncio.run(main())
    ('pull-wake', 'wake/bills')
    """

    def __init__(
        self,
        url: str,
        *,
        headers: HeadersLike | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retry: Retry | None = DEFAULT,
        client: AsyncTransport | None = None,
    ) -> None:
        self._root = Root(url, headers, Terms(retry, timeout))
        self._client = client

    @property
    def _transport(self) -> AsyncTransport:
        """The client given, or the one of the running loop."""
        return self._client or shared_client()

    async def create_webhook(
        self,
        id: str,
        url: str,
        *,
        pattern: str | None = None,
        streams: Iterable[str] = (),
        lease_ttl_ms: int | None = None,
        description: str | None = None,
    ) -> SubscriptionInfo:
        """Create a subscription whose server posts to `url` when one of its streams has something new.

        The same again is not an error; another configuration raises `SubscriptionExistsError`.
        """
        config = requests.config(pattern, streams, lease_ttl_ms, description)
        config |= {"type": "webhook", "webhook": {"url": url}}
        return await run(self._transport, requests.create(self._root, id, config))

    async def create_pull(
        self,
        id: str,
        wake_stream: str,
        *,
        pattern: str | None = None,
        streams: Iterable[str] = (),
        lease_ttl_ms: int | None = None,
        description: str | None = None,
        create_wake_stream: bool = True,
    ) -> SubscriptionInfo:
        """Create a subscription whose workers claim what is new, see `PullWorker`.

        The server writes to `wake_stream` when there is something to claim. It is created if it is not there.
        """
        if create_wake_stream:
            endpoint = self._root.stream(wake_stream)
            await run(
                self._transport, writing.create(endpoint, self._root.terms, content_type="application/json")
            )
        config = requests.config(pattern, streams, lease_ttl_ms, description)
        config |= {"type": "pull-wake", "wake_stream": wake_stream}
        return await run(self._transport, requests.create(self._root, id, config))

    async def read(self, id: str) -> SubscriptionInfo:
        """Read a subscription: its configuration, its streams, its lag."""
        return await run(self._transport, requests.read(self._root, id))

    async def delete(self, id: str) -> None:
        """Delete a subscription; one that is not there is not an error."""
        await run(self._transport, requests.delete(self._root, id))

    async def list(self) -> AsyncIterator[SubscriptionInfo]:
        """Iterate over all subscriptions that the token may read, without their streams."""
        cursor: str | None = None
        while True:
            page = await run(self._transport, requests.page(self._root, cursor))
            for one in page.subscriptions:
                yield one
            cursor = page.cursor
            if cursor is None:
                return

    async def add_streams(self, id: str, *paths: str) -> None:
        """Add streams by their paths, from now on; those that are in it already stay as they are."""
        await run(self._transport, requests.add_streams(self._root, id, paths))

    async def remove_streams(self, id: str, *paths: str) -> None:
        """Remove streams that were added by their paths; those that match the pattern stay in it."""
        await run(self._transport, requests.remove_streams(self._root, id, paths))

    async def retry(self, id: str) -> None:
        """Attempt a delivery that has failed now, without waiting for its time."""
        await run(self._transport, requests.retry(self._root, id))

    async def rotate_keys(self) -> RotatedKeys:
        """Let the server sign webhooks with a new key; the former one stays published for a while."""
        return await run(self._transport, requests.rotate_keys(self._root))


async def call_back(
    wake: Wake,
    acks: Mapping[str, str] | None = None,
    *,
    done: bool = True,
    timeout: float = DEFAULT_TIMEOUT_S,  # noqa: ASYNC109 (of each request, not of this call)
    retry: Retry | None = DEFAULT,
    client: AsyncTransport | None = None,
) -> Acknowledged:
    """Acknowledge a webhook later than by its answer.

    `acks` are offsets by paths; by default everything that the webhook spoke of. Without `done` it stays
    this receiver's work, and its lease begins anew. `FencedError` says that the server has sent it again.
    """
    plan = requests.call_back(wake, wake.tails if acks is None else acks, Terms(retry, timeout), done=done)
    return await run(client or shared_client(), plan)
