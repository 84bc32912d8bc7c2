"""Sessions of the OpenAI Agents SDK in a stream.

    session = StreamSession("http://127.0.0.1:4437/sessions/17")
    result = await Runner.run(agent, "Hello", session=session)

The stream is a journal (`journal`). Nothing in it changes; what the SDK does becomes a record:

    {"add": [item, ...]}   items were added, all of them or none
    {"pop": n}             the last item was removed, as it was after record n
    {"clear": true}        what came before does not count any more

Any number of processes may share a session. A call is stored once, however often it is sent.

All items are one read of the stream from its beginning. The last N are found from its end (`backwards`).
"""

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any

from millstream.agents.extras import missing
from millstream.agents.journal import Journal, MovedError
from millstream.agents.opening import Source, Token, open_stream

try:
    from agents.memory import SessionSettings
    from agents.memory.session_settings import resolve_session_limit
except ImportError as error:
    raise missing("the OpenAI Agents SDK", "openai-agents", error) from error

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

_Item = Any
_Record = dict[str, Any]


class StreamSession:
    """A session of the OpenAI Agents SDK that is kept in a stream.

    `stream` is a URL, with a token if the server asks for one, or a handle of `millstream.aio`. The first
    item creates the stream; with `ttl_seconds` it expires that long after its last use.
    """

    def __init__(
        self,
        stream: Source,
        *,
        token: Token | None = None,
        session_id: str | None = None,
        session_settings: SessionSettings | None = None,
        ttl_seconds: int | None = None,
    ) -> None:
        handle = open_stream(stream, token)
        self.session_id = session_id or handle.url
        self.session_settings = session_settings
        self._journal = Journal(handle, ttl_seconds=ttl_seconds)
        self._pops = asyncio.Lock()
        self._popping: tuple[_Record, _Item] | None = None

    async def get_items(self, limit: int | None = None) -> "list[TResponseInputItem]":
        """Return the items in their order; with a limit, the last ones."""
        limit = resolve_session_limit(limit, self.session_settings)
        if limit is None:
            history = History()
            async for record in self._journal.read():
                history.apply(record)
            return history.items
        return (await self._last(limit))[0] if limit > 0 else []

    async def add_items(self, items: "list[TResponseInputItem]") -> None:
        """Add items, all of them or none."""
        if items:
            await self._journal.append({"add": items})

    async def pop_item(self) -> "TResponseInputItem | None":
        """Remove the last item and return it; None if there is none."""
        async with self._pops:
            if self._popping is not None:  # the last call failed, and may have been stored
                record, item = self._popping
                if await self._journal.settle(record):
                    self._popping = None
                    return item  # type: ignore[no-any-return]  # an item is what the SDK added
            while True:
                last, number = await self._last(1)
                if not last:
                    return None
                self._popping = ({"pop": number}, last[0])
                with contextlib.suppress(MovedError):
                    await self._journal.append_after(number, {"pop": number})
                    self._popping = None
                    return last[0]  # type: ignore[no-any-return]  # as above

    async def clear_session(self) -> None:
        """Remove all items. They remain in the stream: to erase them, delete the stream."""
        await self._journal.append({"clear": True})

    async def _last(self, count: int) -> tuple[list[_Item], int]:
        """Return the last items, and the number of the record after which they were that."""
        records: deque[_Record] = deque()
        history = History()
        async with contextlib.aclosing(self._journal.backwards()) as steps:
            async for step in steps:
                records.extendleft(reversed(step))
                history = History()
                for record in records:
                    history.apply(record)
                if history.is_complete or len(history.items) >= count:
                    break
        return history.items[-count:], records[-1]["n"] if records else 0


class History:
    """The items that records leave. If the records begin in the middle, these are the last items there are.

    Items of earlier records can only be before them: a pop that finds no item here removes an earlier one.
    `is_complete` after a clear, when earlier records do not count.
    """

    def __init__(self) -> None:
        self.items: list[_Item] = []
        self.is_complete = False

    def apply(self, record: _Record) -> None:
        """Take the next record into account."""
        if "add" in record:
            self.items += record["add"]
        elif "pop" in record and self.items:
            self.items.pop()
        elif "clear" in record:
            self.items.clear()
            self.is_complete = True
