"""Pydantic AI: message histories in streams, and what an agent says while it says it.

    history = MessageHistory("http://127.0.0.1:4437/chats/17")
    result = await agent.run("Hello", message_history=await history.load())
    await history.append(result.new_messages())

The stream is a journal (`journal`), with a record for each append:

    {"key": "9f...", "messages": [message, ...]}

The key is a digest of the messages, which have the id of their run and its time in them. An append that comes
again, from whichever process, is recognised by it and stored once.

The whole history is one read of the stream. The last N messages are found from its end (`backwards`).
"""

import contextlib
import hashlib
from collections.abc import AsyncIterable, Sequence
from typing import Any

import msgspec

from millstream.agents.backwards import BEGINNING, Message
from millstream.agents.events import write_all
from millstream.agents.extras import missing
from millstream.agents.journal import Journal, MovedError
from millstream.agents.opening import Source, Token, open_stream

try:
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise missing("Pydantic AI", "pydantic-ai", error) from error

__all__ = ["MessageHistory", "write_events", "write_text"]


class MessageHistory:
    """The messages of a conversation, kept in a stream.

    `stream` is a URL, with a token if the server asks for one, or a handle of `millstream.aio`. The first
    append creates the stream; with `ttl_seconds` it expires that long after its last use.
    """

    def __init__(self, stream: Source, *, token: Token | None = None, ttl_seconds: int | None = None) -> None:
        self._journal = Journal(open_stream(stream, token), ttl_seconds=ttl_seconds)
        self._keys: set[str] = set()
        self._number = 0
        self._offset = BEGINNING

    async def load(self, *, last: int | None = None) -> list[ModelMessage]:
        """Return the messages, for `message_history`; with `last`, that many from the end.

        The last messages may begin in the middle of a turn. Appends that come again are recognised if they
        are among what was loaded, or new since.
        """
        if last is not None:
            return await self._load_last(last)
        messages: list[Any] = []
        async with contextlib.aclosing(self._journal.read_after(BEGINNING)) as batches:
            async for records, offset in batches:
                self._saw(records, offset)
                messages += [message for record in records for message in record["messages"]]
        return ModelMessagesTypeAdapter.validate_python(messages)

    async def append(self, messages: Sequence[ModelMessage]) -> None:
        """Append messages, usually `result.new_messages()`: all of them or none, and once."""
        if not messages:
            return
        written = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
        key = hashlib.blake2b(msgspec.json.encode(written), digest_size=16).hexdigest()
        while True:
            async with contextlib.aclosing(self._journal.read_after(self._offset)) as batches:
                async for records, offset in batches:
                    self._saw(records, offset)
            if key in self._keys:
                return
            with contextlib.suppress(MovedError):
                await self._journal.append_after(self._number, {"key": key, "messages": written})
                return

    async def _load_last(self, count: int) -> list[ModelMessage]:
        found: list[Any] = []
        async with contextlib.aclosing(self._journal.backwards()) as steps:
            async for records in steps:
                self._saw(records, self._journal.offset)
                found[:0] = [message for record in records for message in record["messages"]]
                if len(found) >= count:
                    break
        return ModelMessagesTypeAdapter.validate_python(found[-count:] if count > 0 else [])

    def _saw(self, records: list[Message], offset: str) -> None:
        """Remember the keys of records, and how far all of them are known."""
        self._keys.update(record["key"] for record in records)
        if records and records[-1]["n"] > self._number:
            self._number, self._offset = records[-1]["n"], offset


async def write_text(deltas: AsyncIterable[str], stream: Source, *, token: Token | None = None) -> int:
    """Write `result.stream_text(delta=True)` into a stream as it comes, and close the stream at the end.

    Each piece is a message `{"token": "..."}`. Returns the number of pieces.
    """
    return await write_all(({"token": delta} async for delta in deltas), stream, token)


async def write_events(events: AsyncIterable[Any], stream: Source, *, token: Token | None = None) -> int:
    """Write the events of `agent.run_stream_events` into a stream as they come, and close it at the end.

    Events become JSON objects with their fields. Returns the number of events.
    """
    written = (to_jsonable_python(event, fallback=repr) async for event in events)
    return await write_all(written, stream, token)
