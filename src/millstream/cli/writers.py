"""How messages reach a stream: plainly, or exactly once."""

from typing import Protocol

from millstream.client.core.retry import DEFAULT
from millstream.client.sync.producer import IdempotentProducer
from millstream.client.sync.streams import DurableStream

NEVER_MS = 1e12
"""A batch that lingers for that long is ended by its size alone."""


class Writer(Protocol):
    """Takes messages in order."""

    stored: int

    @property
    def duplicates(self) -> int:
        """How many batches turned out to be stored already."""
        ...

    def write(self, messages: list[bytes]) -> None:
        """Take messages that came together."""
        ...

    def finish(self, *, close: bool) -> str | None:
        """Wait until everything is stored; give where the stream ends, if that is known."""
        ...


class Plain:
    """Plain appends: each bunch is sent when it is there; a broken connection leaves a doubt."""

    duplicates = 0

    def __init__(self, stream: DurableStream) -> None:
        self.stored = 0
        self._stream = stream
        self._offset: str | None = None

    def write(self, messages: list[bytes]) -> None:
        """Append, and wait for it."""
        result = self._stream.append_all(messages)
        if result is not None:
            self._offset = result.next_offset
            self.stored += len(messages)

    def finish(self, *, close: bool) -> str | None:
        """Close the stream if it should be."""
        return self._stream.close().final_offset if close else self._offset


class Stamped:
    """A producer's appends: several batches on their way, each stored once however often it is sent.

    With `repeats` the same input gives the same batches, so that it can be given again in the same
    epoch. Otherwise a batch goes as soon as nothing follows.
    """

    def __init__(self, stream: DurableStream, name: str, *, epoch: int, repeats: bool) -> None:
        self.stored = 0
        self._taken = 0
        linger_ms = NEVER_MS if repeats else 5.0
        self._producer = IdempotentProducer(stream, name, epoch=epoch, linger_ms=linger_ms, retry=DEFAULT)

    @property
    def duplicates(self) -> int:
        """How many batches had been stored before."""
        return self._producer.duplicate_count

    def write(self, messages: list[bytes]) -> None:
        """Hand messages over; waits when too many are on their way."""
        for message in messages:
            self._producer.append(message)
        self._taken += len(messages)

    def finish(self, *, close: bool) -> str | None:
        """Wait until everything is stored."""
        closed = self._producer.close() if close else None
        self._producer.detach()
        self.stored = self._taken
        return closed.final_offset if closed is not None else self._producer.last_offset
