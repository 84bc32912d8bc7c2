"""Deliveries: the three ways in which the rows of a task reach their streams.

    parts       tasks stage parts, invisible to readers; the driver commits those of one attempt atomically
    driver      rows are sent to the driver, which appends them in one request for each stream
    producer    tasks append, each partition as its own producer

Parts of many streams, and their commits, are sent in one request where the server takes that: a batch for
thousands of streams costs a few requests.

With the first two a repeated batch may differ: the first attempt to be committed counts, completely.
Producers number their requests, so a repeated batch must consist of the same requests; `order=sort` makes
the order of rows irrelevant, but not which partition they are in.
"""

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from millstream.client.core import errors
from millstream.client.core.plans.many import MOST
from millstream.spark.options import OptionError
from millstream.spark.sink.encoding import EncodedRows, join
from millstream.spark.sink.identities import Identity
from millstream.spark.sink.outputs import Outputs, OutputStream, StreamCommit

MAX_DRIVER_BYTES = 8 * 2**20
_MANY = 8
"""From how many streams on their parts are sent together."""


class Delivered(msgspec.Struct):
    """The result of one task for one stream: staged parts, or content for the driver."""

    commit: str
    content_type: str
    parts: list[str] = []
    body: bytes = b""
    closes: bool = False
    rows: int = 0


class SendBuffer:
    """Content for one stream that is not sent yet."""

    def __init__(self, output: OutputStream) -> None:
        self.output = output
        self.pieces: list[EncodedRows] = []
        self.size = 0
        self.requests = 0

    def take(self) -> bytes:
        """Return the content as one body, and clear the buffer."""
        body = join(self.pieces, self.output.kind)
        self.pieces, self.size = [], 0
        self.requests += 1
        return body


class Delivery:
    """Sends a task's rows to their streams.

    A part is staged in a thread while the next one is encoded, so that the task does not wait for its fsync.
    """

    def __init__(
        self, outputs: Outputs, identity: Identity, partition: int, *, part_bytes: int, sorts: bool
    ) -> None:
        self._outputs = outputs
        self._producer = identity.of_partition(partition)
        self._part_bytes = part_bytes
        self._sorts = sorts
        self._prefix = uuid.uuid4().hex
        self._pending: dict[str, SendBuffer] = {}
        self._size = 0
        self._thread = ThreadPoolExecutor(1, "millstream-stage")
        self._staging: Future[None] | None = None
        self._together: list[tuple[OutputStream, str, bytes]] = []  # parts that are sent in one request
        self._together_size = 0
        self.done: dict[str, Delivered] = {}

    def add(self, output: OutputStream, pieces: Iterable[EncodedRows], rows: int) -> None:
        """Add content for a stream, so many rows, and send buffers that are full."""
        pending = self._begin(output)
        self.done[output.name].rows += rows
        if output.closed and output.commit == "parts":
            # Nothing can be staged, and a repeated batch needs no staging: the driver commits, and the
            # server knows whether this batch was committed before.
            self.done[output.name].parts = [f"{self._prefix}-closed"]
            return
        waits_for_all = output.commit == "driver" or (output.commit == "producer" and self._sorts)
        for piece in pieces:
            size = len(piece) + 1
            if pending.pieces and not waits_for_all and pending.size + size > self._part_bytes:
                self._send(pending)
            pending.pieces.append(piece)
            pending.size += size
            self._size += size
        if output.commit == "driver" and pending.size > MAX_DRIVER_BYTES:
            raise OptionError("commit", "is driver, which is for small batches; choose parts or producer")
        if not waits_for_all and output.commit == "parts":
            self._make_room()

    def end(self, output: OutputStream) -> None:
        """Mark a stream as ending with this batch."""
        self._begin(output)
        self.done[output.name].closes = True

    def finish(self) -> dict[str, Delivered]:
        """Send what is left, and return the task's results."""
        for pending in self._pending.values():
            if pending.output.commit == "driver":
                self.done[pending.output.name].body = pending.take() if pending.pieces else b""
            elif pending.output.commit == "producer" and self._sorts:
                self._send_sorted(pending)
            elif pending.pieces:
                self._send(pending)
        self._send_together()
        self._wait()
        self._thread.shutdown()
        return self.done

    def abandon(self) -> None:
        """Drop staged parts if the server is reachable; otherwise they expire."""
        self._thread.shutdown()  # a part in flight would be staged after it was dropped
        drop(self._outputs, self.done)

    def _begin(self, output: OutputStream) -> SendBuffer:
        if output.name not in self._pending:
            self._pending[output.name] = SendBuffer(output)
            self.done[output.name] = Delivered(output.commit, output.content_type)
        return self._pending[output.name]

    def _make_room(self) -> None:
        """Keep the buffers of all streams together below the size of two parts."""
        if self._size <= 2 * self._part_bytes:
            return
        if len(self._pending) >= _MANY and self._outputs.takes_many():
            for pending in self._pending.values():
                if pending.pieces and pending.output.commit == "parts":
                    self._send(pending)
            return
        while self._size > 2 * self._part_bytes:
            self._send(max(self._pending.values(), key=lambda pending: pending.size))

    def _send(self, pending: SendBuffer) -> None:
        self._size -= pending.size
        number, output = pending.requests, pending.output
        body = pending.take()
        if output.commit == "producer":
            self._outputs.append(output, body, self._producer.stamp(number))
            return
        id = f"{self._prefix}-{number:06}"
        self.done[output.name].parts.append(id)  # recorded first, so that it is dropped in any case
        if len(self._pending) >= _MANY and self._outputs.takes_many():
            self._together.append((output, id, body))
            self._together_size += len(body)
            if self._together_size >= self._part_bytes or len(self._together) >= MOST:
                self._send_together()
            return
        self._wait()
        self._staging = self._thread.submit(self._outputs.stage, output, id, body)

    def _send_together(self) -> None:
        together, self._together, self._together_size = self._together, [], 0
        if together:
            self._wait()
            self._staging = self._thread.submit(self._outputs.stage_all, together)

    def _wait(self) -> None:
        """Wait for the part that is being staged; raises its failure."""
        staging, self._staging = self._staging, None
        if staging is not None:
            staging.result()

    def _send_sorted(self, pending: SendBuffer) -> None:
        output, messages = pending.output, sorted(map(bytes, pending.pieces))
        for number, portion in enumerate(_portions(messages, self._part_bytes)):
            self._outputs.append(output, join(portion, output.kind), self._producer.stamp(number))


def commit(
    outputs: Outputs,
    identity: Identity,
    tasks: Iterable[dict[str, Delivered]],
    closes: Iterable[str] = (),
    *,
    compares: bool = True,
) -> None:
    """Commit the tasks' results, in the order of their partitions, and close streams.

    With `compares`, a batch that was committed before with another number of rows is refused.
    """
    by_stream: dict[str, list[Delivered]] = {}
    for task in tasks:
        for name, delivered in task.items():
            by_stream.setdefault(name, []).append(delivered)
    closing = set(closes)
    together: list[StreamCommit] = []
    for name in sorted(by_stream.keys() | closing):
        found = by_stream.get(name, [])
        ends = name in closing or any(one.closes for one in found)
        parts = [id for one in found for id in one.parts]
        if parts:
            fingerprint = f"{sum(one.rows for one in found)} rows" if compares else None
            together.append(StreamCommit(name, parts, fingerprint, ends))
        else:
            _append_one(outputs, identity, name, found, closes=ends)
    for name in _commit_parts(outputs, identity, together):
        drop(outputs, *({name: one} for one in by_stream[name]))


def _commit_parts(outputs: Outputs, identity: Identity, commits: list[StreamCommit]) -> Iterable[str]:
    """Commit parts, and return the streams for which this batch was committed before."""
    if len(commits) >= _MANY and outputs.takes_many():
        return outputs.commit_all(commits, identity.stamp())
    return [one.name for one in commits if not outputs.commit(one, identity.stamp())]


def drop(outputs: Outputs, *tasks: dict[str, Delivered]) -> None:
    """Drop staged parts; stops at the first failure, because the rest would fail, too."""
    with contextlib.suppress(errors.MillstreamError):
        for task in tasks:
            for name, delivered in task.items():
                for id in delivered.parts:
                    outputs.drop(name, id)


def _append_one(
    outputs: Outputs, identity: Identity, name: str, found: list[Delivered], *, closes: bool
) -> None:
    """Append what the driver was sent for a stream, and close it."""
    contents = [one.body for one in found if one.body]
    if contents:
        output = outputs.open(name)
        outputs.append(output, _merged(contents, output), identity.stamp(), closes=closes)
    elif closes:
        outputs.close(outputs.open(name).name)


def _merged(contents: list[bytes], output: OutputStream) -> bytes:
    """Merge bodies into one; JSON bodies are arrays."""
    if len(contents) == 1:
        return contents[0]
    if contents[0][:1] == b"[" and output.kind.name == "JSON":
        return b"[%b]" % b",".join(body[1:-1] for body in contents)
    return b"".join(contents)


def _portions(messages: list[bytes], max_bytes: int) -> Iterator[list[bytes]]:
    begin = size = 0
    for index, message in enumerate(messages):
        if index > begin and size + len(message) + 1 > max_bytes:
            yield messages[begin:index]
            begin, size = index, 0
        size += len(message) + 1
    if begin < len(messages):
        yield messages[begin:]
