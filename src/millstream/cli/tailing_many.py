"""Following several streams, or those that globs match, on one connection: each line begins with its path."""

import base64
from collections.abc import Iterator
from typing import Final

import msgspec

from millstream.cli import targets, terminals
from millstream.cli.contents import Shape, json_messages, one_line
from millstream.cli.exits import Exit, Failure
from millstream.cli.following import ATTENTIVE, Patience
from millstream.cli.output import StandardOutput, when_unread
from millstream.cli.positions import messages_between
from millstream.client.core import bodies
from millstream.client.core.errors import MillstreamError
from millstream.client.core.models import StreamBatch
from millstream.client.sync.following import Following, follow_many

_STARTS: Final = ("-1", "now")


def follow(
    names: list[str], globs: list[str], server: targets.Server, *, offset: str | None, shape: Shape
) -> None:
    """Write what comes of all these streams, until each has ended."""
    if offset not in (None, *_STARTS):
        raise Failure(Exit.USAGE, "With several streams, --offset is -1 or now", "Follow one to resume it")
    if shape is Shape.RAW:
        raise Failure(Exit.USAGE, "--format raw is for one stream", "Use lines or json")
    for name in names:
        if "://" in name:
            raise Failure(Exit.USAGE, "Several streams are named by their paths", "Give the server as --url")
    reader = _Reader(server, [f"/{name.lstrip('/')}" for name in names], globs, from_beginning=offset == "-1")
    writer = _Writer(StandardOutput(), shape)
    for path, batch in reader.batches():
        writer.show(path, batch)


class _Reader:
    """Follows across failures, and reports each interruption once."""

    def __init__(
        self, server: targets.Server, paths: list[str], globs: list[str], *, from_beginning: bool
    ) -> None:
        self._server = server
        self._paths: dict[str, str] = dict.fromkeys(paths, "-1" if from_beginning else "now")
        self._globs = globs
        self._from = "-1" if from_beginning else "now"
        self._patience = Patience(follows=True)
        self._following: Following | None = None
        self._is_unread = False
        when_unread(self._leave)

    def batches(self) -> Iterator[tuple[str, StreamBatch]]:
        """Iterate over what comes."""
        while True:
            following = self._following = follow_many(
                self._server.url,
                self._paths,
                globs=self._globs,
                globs_from=self._from,
                headers=self._server.headers(self._server.url),
                retry=ATTENTIVE,
            )
            try:
                for path, batch in following:
                    self._patience.received()
                    yield path, batch
            except MillstreamError as error:
                if self._patience(error) is None:
                    raise
                self._paths, self._from = following.positions, following.globs_from
            else:
                if self._is_unread:
                    raise BrokenPipeError
                return

    def _leave(self) -> None:
        self._is_unread = True
        if self._following is not None:
            self._following.cancel()


class _Writer:
    """Writes lines, each with the path of its stream."""

    def __init__(self, output: StandardOutput, shape: Shape) -> None:
        self._output = output
        self._shape = shape
        self._unfinished: dict[str, bytes] = {}
        self._offsets: dict[str, str] = {}

    def show(self, path: str, batch: StreamBatch) -> None:
        """Write the content of a batch, and that a stream has ended."""
        is_json = bodies.is_json(batch.content_type)
        before = self._offsets.get(path, "")
        self._offsets[path] = batch.offset
        if batch.data and self._shape is Shape.JSON:
            self._output.raw(b"".join(self._objects(path, batch, before, is_json=is_json)))
        elif is_json and batch.data:
            self._lines(path, [one_line(message) for message in json_messages(batch.data)])
        elif batch.data:
            *lines, self._unfinished[path] = (self._unfinished.get(path, b"") + batch.data).split(b"\n")
            self._lines(path, lines)
        if batch.stream_closed or batch.stream_deleted:
            self._offsets.pop(path, None)
            if rest := self._unfinished.pop(path, b""):
                self._lines(path, [rest])
            how = "closed" if batch.stream_closed else "deleted"
            targets.note(terminals.inert_line(f"-- {path} is {how} at {batch.offset} --"))

    def _objects(self, path: str, batch: StreamBatch, before: str, *, is_json: bool) -> list[bytes]:
        name = msgspec.json.encode(path)
        if is_json:
            found = messages_between(json_messages(batch.data), before, batch.offset)
            pairs = [(one.offset, b'"value":' + one_line(one.content)) for one in found]
        else:
            try:
                content = b'"text":' + msgspec.json.encode(batch.data.decode())
            except UnicodeDecodeError:
                content = b'"base64":"%b"' % base64.b64encode(batch.data)
            pairs = [(batch.offset, content)]
        return [
            b'{"path":%b,"offset":%b,%b}\n' % (name, msgspec.json.encode(offset), value)
            for offset, value in pairs
        ]

    def _lines(self, path: str, lines: list[bytes]) -> None:
        if not lines:
            return
        written = b"".join(b"%b\t%b\n" % (path.encode(), line) for line in lines)
        if self._output.is_terminal:
            self._output.text(terminals.inert(written.decode(errors="backslashreplace")))
        else:
            self._output.raw(written)
