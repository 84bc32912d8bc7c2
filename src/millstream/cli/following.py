"""Following a stream to its end, across failures."""

import time
from collections.abc import Iterator
from typing import Final

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import when_unread
from millstream.client.core import errors, retry
from millstream.client.core.models import ByteChunk, Changes
from millstream.client.core.retry import Retry
from millstream.client.sync.responses import StreamResponse
from millstream.client.sync.streams import stream

ATTENTIVE: Final = Retry(max_total_s=1.0)
"""How long the client retries silently before the failure is reported."""

PATIENCE_S: Final = 60.0
"""How long a read without --follow waits for an unreachable server."""


class Patience:
    """Decides whether a read continues after an error, and reports each interruption once."""

    def __init__(self, *, follows: bool) -> None:
        self._follows = follows
        self._cut_at: float | None = None

    def __call__(self, error: Exception) -> Changes | None:
        """Wait and retry, or give up."""
        if not is_passing(error):
            return None
        if self._cut_at is None:
            self._cut_at = time.monotonic()
            targets.note(f"{error}; retrying (Ctrl+C to stop)")
        elif not self._follows and time.monotonic() - self._cut_at > PATIENCE_S:
            return None
        time.sleep(0.5)
        return {}

    def received(self) -> None:
        """Record that the stream is being read again."""
        if self._cut_at is not None:
            self._cut_at = None
            targets.note("resumed")


def is_passing(error: Exception) -> bool:
    """Return whether an error may be transient."""
    if isinstance(error, errors.TransportError):
        return error.code != "UNTRUSTED"
    return isinstance(error, errors.MillstreamError) and error.status in retry.STATUSES


class Reading:
    """One read of an existing stream, from an offset to where it should end."""

    def __init__(
        self,
        server: targets.Server,
        url: str,
        *,
        offset: str,
        follows: bool,
        until: str | None = None,
        times: bool = False,
    ) -> None:
        self._until = until
        self._follows = follows
        self._is_unread = False
        self._patience = Patience(follows=follows)
        self._response: StreamResponse = stream(
            url,
            offset=offset,
            # Events come one for each time; by catch-up, each time would be a request.
            live="sse" if times and until is None else follows,
            headers=server.headers(url),
            params={"until": until, "times": "true" if times else None},
            retry=ATTENTIVE,
            on_error=self._patience,
        )
        if follows:
            when_unread(self._leave)

    @property
    def content_type(self) -> str | None:
        """The stream's content type."""
        return self._response.content_type

    @property
    def start_offset(self) -> str:
        """Where it began."""
        return self._response.start_offset

    @property
    def offset(self) -> str:
        """The current offset."""
        return self._response.offset

    @property
    def stream_closed(self) -> bool:
        """Whether the stream's end was reached."""
        return self._response.stream_closed

    def chunks(self) -> Iterator[ByteChunk]:
        """Iterate over the content until the end."""
        with self._response as response:
            for chunk in response.iter_byte_chunks():
                self._patience.received()
                if self._until is not None and chunk.offset > self._until and chunk.data:
                    raise Failure(
                        Exit.FAILED,
                        "This server cannot read until an offset",
                        "Omit --until and truncate the output",
                    )
                yield chunk
                if self._until is not None and chunk.offset >= self._until:
                    return
                if chunk.up_to_date and not self._follows:
                    return
        if self._is_unread:
            raise BrokenPipeError

    def _leave(self) -> None:
        self._is_unread = True
        self._response.cancel()
