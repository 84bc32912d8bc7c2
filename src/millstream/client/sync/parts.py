"""Multipart appends of the sync shell: methods block. The twin of aio/parts."""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from millstream.client.core.models import AppendResult, ProducerStamp
from millstream.client.core.plans.parts import Draft
from millstream.client.core.transport import Transport
from millstream.client.sync.driving import run


class Multipart:
    """An append of any size, written in steps, that becomes visible atomically.

    Messages are collected into parts and staged on the server, invisible to readers. The end of the
    block commits them; an exception drops them. Not thread-safe.

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
        """The result of the commit; None before it, and if there was nothing to commit."""

    def write(self, data: Any) -> None:
        """Add one message, as `DurableStream.append` takes it, and stage a part when it is full."""
        run(self._transport, self._draft.write(data))

    def write_all(self, messages: Iterable[Any]) -> None:
        """Add many messages."""
        for message in messages:
            self.write(message)

    def commit(
        self,
        *,
        seq: str | None = None,
        producer: ProducerStamp | None = None,
        close: bool = False,
        expected_offset: str | None = None,
    ) -> AppendResult | None:
        """Append everything written so far; None if that is nothing. Call it once.

        `seq`, `producer`, `close` and `expected_offset` mean the same as on an append. If the result is a
        duplicate, the stream holds what was first committed with this producer's stamp, and nothing of this
        one.
        """
        self.result = run(
            self._transport,
            self._draft.commit(seq=seq, stamp=producer, closes=close, expected_offset=expected_offset),
        )
        return self.result

    def abort(self) -> None:
        """Drop everything written so far."""
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
