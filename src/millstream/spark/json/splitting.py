r"""Splitting: the messages of a JSON array that arrives in chunks of any size.

        [{"a":1},{"b":     ->  {"a":1}
        [2,3]},"x"]        ->  {"b":[2,3]}   "x"

Messages are not re-encoded: big integers, key order and spacing stay. Only the unfinished message is
buffered, so memory is bounded by the largest message and the largest chunk.
"""

import re

import msgspec

from millstream.spark.json.messages import Message

_objects = msgspec.json.Decoder(list[msgspec.defstruct("Skipped", [], gc=False)])  # type: ignore[misc]  # made here
_array = msgspec.json.Decoder(list[msgspec.Raw])
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL)
_OPENING = frozenset((b"[", b"{"))
_CLOSING = frozenset((b"]", b"}"))
_SPACE = b" \t\r\n"


class NotAnArrayError(ValueError):
    """The body is not a JSON array."""


def split_array(body: bytes) -> list[Message]:
    """Split a whole array, which is ten times faster than in chunks."""
    try:
        return list(_array.decode(body))
    except (msgspec.MsgspecError, RecursionError):
        # Streams may hold lone surrogates and deep nesting, which msgspec rejects.
        splitter = ArraySplitter()
        return [*splitter.feed(body), *splitter.end()]


def count_elements(body: bytes) -> int:
    """Count the elements of a whole array; fastest if all are objects."""
    try:
        return len(_objects.decode(body))
    except (msgspec.MsgspecError, RecursionError):
        return len(split_array(body))


class ArraySplitter:
    """Splits one JSON array into its elements."""

    def __init__(self) -> None:
        self._held = b""
        self._scanned = 0  # how much of the buffer has been scanned
        self._depth = 0
        self._begins = 0  # where the current element begins
        self._wait_for = 0  # scan again at this size, so that a long string is not scanned too often
        self.ended = False

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the elements that are now complete."""
        self._held += data
        if len(self._held) < self._wait_for:
            return []
        found: list[bytes] = []
        held = self._held
        position = self._scanned
        for token in _TOKEN.finditer(held, self._scanned):
            text = token[0]
            position = token.end()
            if text == b",":
                if self._depth == 1:
                    self._take(held[self._begins : token.start()], found)
                    self._begins = position
            elif text in _OPENING:
                self._depth += 1
                if self._depth == 1:
                    self._begins = position
            elif text in _CLOSING:
                self._depth -= 1
                if self._depth == 0:
                    last = held[self._begins : token.start()].strip(_SPACE)
                    if last:
                        found.append(last)
                    self.ended = True
                    self._begins = position
            elif text == b'"':  # a string that has not ended
                position = token.start()
                break
        else:
            position = len(held)
        self._keep(held, position)
        return found

    def _keep(self, held: bytes, position: int) -> None:
        start = self._begins if self._depth else 0
        self._held = held[start:] if not self.ended else b""
        self._begins = 0
        self._scanned = max(0, position - start)
        unfinished = len(self._held) - self._scanned
        self._wait_for = len(self._held) + unfinished if not self.ended else 0

    def _take(self, element: bytes, found: list[bytes]) -> None:
        element = element.strip(_SPACE)
        if not element:
            raise NotAnArrayError("an element is missing")
        found.append(element)

    def end(self) -> list[bytes]:
        """End the body; return the last elements."""
        self._wait_for = 0
        found = self.feed(b"")
        if not self.ended:
            raise NotAnArrayError("it ends too early")
        return found
