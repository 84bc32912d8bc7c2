"""An incremental parser of server-sent events."""

import codecs
import re
from collections.abc import Iterator

from mutants import wrong


class Events:
    """An incremental parser of events."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._kind, self._data = "", list[str]()

    def feed(self, piece: bytes) -> Iterator[tuple[str, str]]:
        self._text += self._decoder.decode(piece)
        end = "\n" if wrong("sse-only-lf") else "\r\n|\n|\r(?!$)"
        while True:
            if wrong("sse-splits-at-every-line-separator"):
                lines = self._text.splitlines(keepends=True)
                if not lines or lines[0] == lines[0].rstrip("\n\r\u2028\u0085"):
                    return
                line, self._text = lines[0].rstrip("\n\r\u2028\u0085"), self._text[len(lines[0]) :]
            else:
                found = re.search(end, self._text)
                if not found:
                    return
                line, self._text = self._text[: found.start()], self._text[found.end() :]
            yield from self._line(line)

    def rest(self) -> Iterator[tuple[str, str]]:
        if wrong("sse-delivers-half-events"):
            yield from self._line(self._text)
            yield from self._line("")

    def _line(self, line: str) -> Iterator[tuple[str, str]]:
        if not line:
            if self._data:
                yield self._kind, ("" if wrong("sse-joins-without-newlines") else "\n").join(self._data)
            self._kind, self._data = "", []
            return
        name, _, value = line.partition(":")
        value = value.strip() if wrong("sse-trims-lines") else value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
