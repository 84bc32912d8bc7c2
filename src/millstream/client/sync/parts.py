"""The sync shell: multipart appends whose methods block."""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from millstream.client.core.models import AppendResult, ProducerStamp
from millstream.client.core.parts import Draft
from millstream.client.core.transport import Transport
from millstream.client.sync.driving import run


class Multipart:
    """An append of any size, written bit by bit, that becomes visible at once or not at all.

    Messages are gathered into parts and staged on the server, where nobody sees them. At the end of
    the block they are committed; an exception drops them. For one thread.

    >>> with log.multipart() as batch:
    ...     for number in range(3):
    ...         batch.write({"n": number})
    ...     log.stream(live=False).read_json()
    []
    >>> batch.result.next_offset[-2:], log.stream(live=False).read_json()
    ('24', [{'n': 0}, {'n': 1}, {'n': 2}])
    """

    def __init__(self, transport: Transport, draft: Draft) -> None:
        self._transport = transport
        self._draft = draft
        self.result: AppendResult | None = None
        """What the commit gave; None before it, and when there was nothing to commit."""

    def write(self, data: Any) -> None:
        """Take one message, as `DurableStream.append` does, and stage a part when there are enough."""
        run(self._transport, self._draft.write(data))

    def write_all(self, messages: Iterable[Any]) -> None:
        """Take many messages."""
        for message in messages:
            self.write(message)

    def commit(
        self, *, seq: str | None = None, producer: ProducerStamp | None = None, close: bool = False
    ) -> AppendResult | None:
        """Append all that was written, now; None when there was nothing. It may be called once.

        `seq`, `producer` and `close` mean what they mean on an append. When the result is a duplicate
        the stream holds what was first committed with the producer's stamp, and nothing else.
        """
        self.result = run(self._transport, self._draft.commit(seq=seq, stamp=producer, closes=close))
        return self.result

    def abort(self) -> None:
        """Drop all that was written."""
        run(self._transport, self._draft.abort())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        elif not self._draft.is_over:
            try:
                self.commit()
            except BaseException:
                self.abort()
                raise
