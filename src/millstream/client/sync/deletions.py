"""Deleting many streams with blocking calls. The plan is in core/deletions.py."""

from millstream.client.core.exchanges import Terms
from millstream.client.core.models import HeadersLike
from millstream.client.core.plans import deletions
from millstream.client.core.plans.deletions import OnProgress
from millstream.client.core.plans.listing import endpoint_of
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.core.transport import Transport
from millstream.client.http.sync_sockets import shared_client
from millstream.client.sync.driving import run
from millstream.client.sync.streams import DEFAULT_TIMEOUT_S


def delete_all(
    url: str,
    prefix: str | None = None,
    *,
    glob: str | None = None,
    on_progress: OnProgress | None = None,
    headers: HeadersLike | None = None,
    timeout: float = DEFAULT_TIMEOUT_S,
    retry: Retry | None = DEFAULT,
    client: Transport | None = None,
) -> int:
    """Delete the streams of the server at `url` whose paths begin with `prefix`; returns how many.

    With `glob`, only those that match it. "/" is the prefix of every stream. Streams that the token may not
    write stay. `on_progress` is called with the number of streams that are deleted so far.

    >>> for number in range(3):
    ...     draft = DurableStream.create(f"{server}/drafts/{number}")
    >>> delete_all(server, "/drafts/")
    3
    >>> delete_all(server, "/drafts/")
    0
    """
    plan = deletions.delete_all(endpoint_of(url, headers), Terms(retry, timeout), prefix, glob, on_progress)
    return run(client or shared_client(), plan)
