"""What would hold the event loop is worked on by threads: large request bodies, and compression.

A body is only parsed there, which needs nothing but the request. The decision about a stream is made on the
event loop afterwards, with the state that the stream has then. A connection answers one request at a time, so
its appends keep their order. There are few threads, and what waits for them counts as a body that its
connection holds (`http.bodies`).

What takes long: JSON of more than 64 KiB, and compressed bodies, except for small ones of other types.

Responses are compressed by one thread less than there are processors, at least one: more would not be faster
while the event loop needs a processor too, and everybody would wait for it.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from millstream.protocol.content import is_json
from millstream.protocol.errors import RequestError
from millstream.protocol.headers import CONTENT_TYPE, STREAM_FORKED_FROM
from millstream.server.request import SMALL_BODY_BYTES, Answer, Request
from millstream.store.pending import Pending, when

BODY_THREADS: Final = 2
COMPRESSION_THREADS: Final = max(1, (os.cpu_count() or 1) - 1)
_DECODE_ON_LOOP_BYTES: Final = 1024  # they become a megabyte at most

T = TypeVar("T")


def takes_long(request: Request) -> bool:
    """Tell whether the body of a request is for a worker."""
    holds_json = is_json(request.headers.get(CONTENT_TYPE, b""))
    if b"content-encoding" in request.headers:
        return holds_json or len(request.body) > _DECODE_ON_LOOP_BYTES
    if len(request.body) <= SMALL_BODY_BYTES:
        return False
    return holds_json or bool(request.query) or STREAM_FORKED_FROM in request.headers  # a fork may be JSON


class Workers:
    """Threads that work on one kind of thing."""

    def __init__(self, what: str, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=f"millstream-{what}")

    def start(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        """Call on a thread, as soon as one is free; the result arrives on the event loop."""
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    def parse(self, parse: Callable[[], T], then: Callable[[T | Exception], Answer]) -> Answer:
        """Parse on a thread, then go on with the result, or with what is wrong, on the event loop.

        `then` is not called when the client has gone meanwhile.
        """
        pending: Pending[Any] = Pending()
        work = self.start(partial(_parsed, parse))
        work.add_done_callback(lambda done: None if done.cancelled() else pending.settle(done.result()))
        return when(pending, then)

    async def close(self) -> None:
        """Drop what waits, and wait for what is being worked on."""
        stop = partial(self._threads.shutdown, cancel_futures=True)
        await asyncio.get_running_loop().run_in_executor(None, stop)


def _parsed(parse: Callable[[], T]) -> T | Exception:
    try:
        return parse()
    except RequestError as error:
        return type(error)(error.code, error.detail)  # without a traceback, whose frames hold the body
    except Exception as error:
        return error
