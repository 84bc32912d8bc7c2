"""Deleting many streams with awaited calls. The plan is in core/deletions.py."""

from millstream.client.aio.driving import run
from millstream.client.aio.streams import DEFAULT_TIMEOUT_S
from millstream.client.core.exchanges import Terms
from millstream.client.core.models import HeadersLike
from millstream.client.core.plans import deletions
from millstream.client.core.plans.deletions import OnProgress
from millstream.client.core.plans.listing import endpoint_of
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.core.transport import AsyncTransport
from millstream.client.http.aio_sockets import shared_client


async def delete_all(
    url: str,
    prefix: str | None = None,
    *,
    glob: str | None = None,
    on_progress: OnProgress | None = None,
    headers: HeadersLike | None = None,
    timeout: float = DEFAULT_TIMEOUT_S,  # noqa: ASYNC109 (of each request, not of this call)
    retry: Retry | None = DEFAULT,
    client: AsyncTransport | None = None,
) -> int:
    """Delete the streams of the server at `url` whose paths begin with `prefix`; returns how many.

    With `glob`, only those that match it. "/" is the prefix of every stream. Streams that the token may not
    write stay. `on_progress` is called with the number of streams that are deleted so far.

    >>> async def main():
    ...     for number in range(3):
    ...         await DurableStream.create(f"{server}/drafts/{number}")
    ...     return await delete_all(server, "/drafts/")
    >>> asyncio.run(main())
    3
    """
    plan = deletions.delete_all(endpoint_of(url, headers), Terms(retry, timeout), prefix, glob, on_progress)
    return await run(client or shared_client(), plan)
