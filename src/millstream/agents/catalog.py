"""A catalog: the names of the streams that a store has, in a stream.

    {"add": "thread-1"}   {"add": "thread-2"}   {"remove": "thread-1"}

A name is added before its stream is created, so that every stream is known. The listing of a server would
tell the same, but not every server has one, and a token may not allow it.
"""

import contextlib
from typing import Any

from millstream.agents.backwards import BEGINNING, Message, read_from
from millstream.agents.opening import append_repeatable, create
from millstream.client.aio.streams import DurableStream
from millstream.client.core.errors import StreamNotFoundError


async def add(stream: DurableStream, name: str, **facts: Any) -> None:
    """Add a name; to add it again changes nothing but its facts."""
    record = {"add": name, **facts}
    try:
        await append_repeatable(stream, record)
    except StreamNotFoundError:
        await create(stream)
        await append_repeatable(stream, record)


async def remove(stream: DurableStream, name: str) -> None:
    """Remove a name."""
    with contextlib.suppress(StreamNotFoundError):
        await append_repeatable(stream, {"remove": name})


async def names(stream: DurableStream) -> dict[str, Message]:
    """Return the names, in the order in which they were added, with their facts."""
    found: dict[str, Message] = {}
    for record in (await read_from(stream, BEGINNING))[0]:
        if "add" in record:
            found[record["add"]] = record
        elif "remove" in record:
            found.pop(record["remove"], None)
    return found
