"""Events of a run, in a stream that readers follow while it is written and after it.

The stream is closed at the end of the run. If the run fails, the last message names the error, and the
stream is closed too. If the program is stopped, the stream remains open: whoever runs it again goes on in it.
"""

import asyncio
from collections.abc import AsyncIterable
from typing import Any, Final

from millstream.agents.opening import Source, Token, create, open_stream
from millstream.client.aio.producer import IdempotentProducer

_PRODUCER: Final = "events"


async def write_all(items: AsyncIterable[Any], stream: Source, token: Token | None = None) -> int:
    """Append items as they come, each exactly once, and close the stream; return their number."""
    handle = open_stream(stream, token)
    await create(handle)
    count = 0
    async with IdempotentProducer(handle, _PRODUCER) as producer:
        try:
            async for item in items:
                await producer.append(item)
                count += 1
        except asyncio.CancelledError:
            await producer.flush()  # what the run has said is stored, though it is stopped here
            raise
        except Exception as error:
            await producer.close({"error": type(error).__name__})
            raise
        await producer.close()
    return count
