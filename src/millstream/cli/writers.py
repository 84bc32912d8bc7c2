"""Writers: plain appends, or exactly once."""

from typing import Protocol

from millstream.client.core.retry import DEFAULT
from millstream.client.sync.producer import IdempotentProducer
from millstream.client.sync.streams import DurableStream

NEVER_MS = 1e12
"""So long that only its size ends a batch."""


class Writer(Protocol):
    """Writes messages in order."""

    stored: int

    @property
    def duplicates(self) -> int:
        """How many batches had been stored before."""
        ...

    def write(self, messages: list[bytes]) -> None:
        """Write messages that arrived together."""
        ...

    def finish(self, *, close: bool) -> str | None:
        """Wait until everything is stored; return the stream's tail, if known."""
        ...


class Plain:
    """Plain appends, sent at once. After a broken connection, the last one may or may not be stored.

    With an expected offset, each append expects the stream to end where the one before it ended.
    """

    duplicates = 0

    def __init__(self, stream: DurableStream, expected_offset: str | None = None) -> None:
        self.stored = 0
        self._stream = stream
        self._offset: str | None = None
        self._expected = expected_offset

    def write(self, messages: list[bytes]) -> None:
        """Append, and wait for the response."""
        result = self._stream.append_all(messages, expected_offset=self._expected)
        if result is not None:
            self._offset = result.next_offset
            self._expected = self._offset if self._expected is not None else None
            self.stored += len(messages)

    def finish(self, *, close: bool) -> str | None:
        """Close the stream if requested."""
        if not close:
            return self._offset
        return self._stream.close(expected_offset=self._expected).final_offset


class Stamped:
    """A producer's appends: pipelined, each stored exactly once.

    With an epoch the same input gives the same batches, so that it can be repeated, and what is stored
    already is skipped. Without one, each run is a new session, and a batch is sent as soon as there is no
    more input.
    """

    def __init__(self, stream: DurableStream, name: str, *, epoch: int | None) -> None:
        self.stored = 0
        self._taken = 0
        repeats = epoch is not None
        linger_ms = NEVER_MS if repeats else 5.0
        self._producer = IdempotentProducer(
            stream, name, epoch=epoch, repeat=repeats, linger_ms=linger_ms, retry=DEFAULT
        )

    @property
    def duplicates(self) -> int:
        """How many batches had been stored before."""
        return self._producer.duplicate_count

    def write(self, messages: list[bytes]) -> None:
        """Queue messages; blocks when the backlog is full."""
        for message in messages:
            self._producer.append(message)
        self._taken += len(messages)

    def finish(self, *, close: bool) -> str | None:
        """Wait until everything is stored."""
        closed = self._producer.close() if close else None
        self._producer.detach()
        self.stored = self._taken
        return closed.final_offset if closed is not None else self._producer.last_offset
