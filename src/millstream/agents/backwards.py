"""Backwards: a stream's messages from its end, without reading all of it.

Streams are read forwards, from an offset that the server gave. On a server with bounded reads, a HEAD
returns where a GET would end, so the beginnings of steps of about a mebibyte are found without their
content, one HEAD for each. What was found is kept, and later calls look at what is new only. Then the last
step is read, the one before it, and so on, for as long as the caller asks for more. On other servers there
is one step: the whole stream.

docs/protocol.md, "Bounded reads".
"""

from collections.abc import AsyncGenerator
from typing import Any, Final

from millstream.agents.opening import with_params
from millstream.client.aio.streams import DurableStream
from millstream.client.core.errors import StreamGoneError, StreamNotFoundError

BEGINNING: Final = "-1"
STEP_BYTES: Final = 1024 * 1024

Message = dict[str, Any]


class Steps:
    """Where the steps of one stream begin, as far as they are known."""

    def __init__(self, step_bytes: int = STEP_BYTES) -> None:
        self.begins = [BEGINNING]
        self.step_bytes = step_bytes

    async def find(self, stream: DurableStream) -> None:
        """Find the steps between the last one that is known and the tail."""
        tail = (await stream.head()).offset
        begins = list(self.begins)  # another thread may look, too
        if tail is None or tail < begins[-1]:
            begins = [BEGINNING]  # it was deleted and created again
        while tail is not None:
            step = with_params(stream, offset=begins[-1], limit=str(self.step_bytes))
            following = (await step.head()).offset
            if following is None or not begins[-1] < following < tail:
                break
            begins.append(following)
        self.begins = begins


async def backwards(stream: DurableStream, steps: Steps) -> AsyncGenerator[tuple[list[Message], str], None]:
    """Yield the messages of each step, the last step first, with the offset after them.

    Within a step messages are in their order. A stream that does not exist has no steps.
    """
    try:
        try:
            await steps.find(stream)
        except StreamGoneError:  # retention has removed where the known steps begin
            steps.begins = [BEGINNING]
            await steps.find(stream)
    except StreamNotFoundError:
        return
    until: str | None = None
    for begin in reversed(steps.begins):
        bounded = stream if until is None else with_params(stream, until=until)
        yield await read_from(bounded, begin)
        until = begin


async def read_from(stream: DurableStream, offset: str) -> tuple[list[Message], str]:
    """Return the messages after an offset, and the offset after them; none where there is no stream."""
    found: list[Message] = []
    try:
        async with stream.stream(offset=offset, live=False) as response:
            async for batch in response.iter_json_batches():
                found += batch.items
                offset = batch.offset
    except StreamNotFoundError:
        return [], BEGINNING
    return found, offset
