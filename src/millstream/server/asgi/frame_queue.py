"""The frames of an event feed, for a caller that awaits them one after the other.

A feed writes to a `Sink` by plain calls. Callers that have to await each piece (an ASGI `send`, the client
in the same process) take frames from this queue instead. It holds one write of the feed: while that is not
taken, the feed writes no more, and what follows stays in the store.
"""

import asyncio
from collections import deque

from millstream.server.live.feeds import EventFeed
from millstream.server.live.frames import Frame


class FrameQueue:
    """A sink whose frames are awaited."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._frames: deque[Frame] = deque()
        self._changed = asyncio.Event()
        self._is_over = False
        self.writable = True

    # -- Called by the feed ----------------------------------------------------------------------

    def write(self, frame: Frame) -> None:
        """Take a frame; no more until it is taken from here."""
        self._frames.append(frame)
        self.writable = False
        self._changed.set()

    def finish(self) -> None:
        """End: no more frames come."""
        self._is_over = True
        self._changed.set()

    # -- Called by the reader --------------------------------------------------------------------

    def start(self) -> None:
        """Let the feed begin."""
        self._feed.start(self)

    async def next(self) -> bytes:
        """Wait for the next events; b"" when there are no more."""
        while not self._frames and not self._is_over:
            self.writable = True
            self._changed.clear()
            self._feed.pump()
            await self._changed.wait()
        return self._frames.popleft().events if self._frames else b""

    def leave(self) -> None:
        """Stop the feed: nobody reads any more. A `next` that waits ends."""
        self._frames.clear()
        self._feed.leave()
        self.finish()
