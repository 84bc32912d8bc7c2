"""Feeds of many streams: one connection is sent the events of all that it follows.

Work is done in steps, which share the turns of the event loop with others (`store.slices`). A step does some
of these things, and sends what they give in one write:

        joins      a stream is looked up, and its first control event says where it begins
        the walk   a page of the streams that the globs match; they join
        data       the next frame of the stream that has waited for longest

A stream that has more goes to the end of the queue, so a long one does not hold up the others. Nothing is
read while the client has no room: what it was not sent stays in the store, as for feeds of one stream.

Rules X9, L4 to L7.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from millstream.protocol import cursors, events, origins, problems, replies
from millstream.protocol.events import MAX_STREAMS, EventsRequest
from millstream.protocol.http import Reply
from millstream.protocol.offsets import NOW
from millstream.protocol.reads import Chunk, ReadFailed
from millstream.protocol.requests import ReadRequest
from millstream.protocol.streams import NotFound, SoftDeleted
from millstream.server.live.feeds import EventFeed
from millstream.server.live.frames import MAX_EVENT_BYTES, Frame, LongMessage, Next, plain_frame
from millstream.server.live.glob_walks import GlobWalk, Join
from millstream.server.live.readers import LiveReaders
from millstream.store.base import Listed, Page, Read
from millstream.store.pending import Eventually, Pending

_STEP_THINGS: Final = 16
_STEP_BYTES: Final = 64 * 1024  # with one frame more, a step gives less than half a MiB
_PAGE: Final = 100  # streams of a page of the walk, and most that wait for their data when it goes on

_log = logging.getLogger("millstream")

T = TypeVar("T")

Refuse = Callable[[str], Reply | None]
"""Refuses to let the client read a stream."""


class _Followed:
    """A stream of a feed."""

    __slots__ = ("by_glob", "feed", "id", "is_ready", "name", "position")

    def __init__(self, feed: "ManyFeed", join: Join) -> None:
        self.feed = feed
        self.name = join.name
        self.by_glob = join.by_glob
        self.id = join.id
        self.position = 0
        self.is_ready = False  # whether it may have more than was sent

    def wake(self) -> None:
        """Send what is new: the stream has changed."""
        self.feed.ready(self)


class ManyFeed(EventFeed):
    """One client that follows many streams."""

    __slots__ = (
        "_asked",
        "_busy",
        "_followed",
        "_is_told",
        "_joins",
        "_last_told",
        "_out",
        "_out_bytes",
        "_page_size",
        "_queued",
        "_ready",
        "_refuse",
        "_sending",
        "_step_things",
        "_walk",
    )

    def __init__(
        self,
        live: LiveReaders,
        asked: EventsRequest,
        head: Reply,
        refuse: Refuse,
        scopes: int,
        max_age_s: float,
    ) -> None:
        super().__init__(live, head, max_age_s)
        self._asked = asked
        self._refuse = refuse
        # A token of many scopes takes longer to compare with a name.
        self._step_things = max(1, min(_STEP_THINGS, 10_000 // max(1, scopes)))
        self._page_size = max(1, min(_PAGE, 10_000 // max(1, scopes)))
        self._followed: dict[str, _Followed] = {}
        self._joins: deque[Join] = deque()
        self._ready: deque[_Followed] = deque()
        self._walk: GlobWalk | None = None
        self._is_told = True  # whether the client knows how far it was told of the streams of its globs
        self._last_told: str | None = None
        self._sending: _Followed | None = None  # whose long message is being sent
        self._out: list[Frame] = []
        self._out_bytes = 0
        self._busy = False  # whether the store is looking for something
        self._queued = False

    # -- Called from outside -----------------------------------------------------------------------

    def _begin(self) -> None:
        self._joins.extend(Join(name, at, by_glob=False) for name, at in self._asked.streams.items())
        if self._asked.globs:
            for glob in self._asked.globs:
                self._live.globs.watch(glob, self)
            self._walk = GlobWalk(self._live.store, self._asked)
            self._emit(events.told(self._walk.origin, up_to_date=False))
        self._step()

    def _unwatch(self) -> None:
        for glob in self._asked.globs:
            self._live.globs.unwatch(glob, self)
        for stream in list(self._followed.values()):
            self._drop(stream)
        self._joins.clear()
        self._ready.clear()
        self._out.clear()
        self._pieces = None

    def pump(self) -> None:
        """Send more when it is this reader's turn: its client has room again."""
        self._queue()

    def ready(self, stream: _Followed) -> None:
        """Send what a stream has, when it is its turn."""
        if not stream.is_ready:
            stream.is_ready = True
            self._ready.append(stream)
            self._queue()

    def created(self, name: str, id: int) -> None:
        """Follow a stream that was created, and that a glob matches."""
        if self._walk is not None:
            self._walk.add_new(name, id)
            self._queue()

    # -- Steps -------------------------------------------------------------------------------------

    def _queue(self) -> None:
        if not self._queued and not self._busy and self._sink is not None and self._sink.writable:
            self._queued = True
            self._live.slices.add(self._continue)

    def _continue(self) -> None:
        self._queued = False
        self._step()

    def _step(self) -> None:
        """Do some of what there is to do, and send what it gives."""
        if self._busy or self._sink is None or not self._sink.writable:
            return
        has_more = self._guarded(self._do_some)
        self._flush()
        if has_more:
            self._queue()
        elif self._is_over:
            self.end()

    def _guarded(self, do: Callable[[], T]) -> T | None:
        """End if something fails that nobody has thought of; the client comes back."""
        try:
            return do()
        except Exception:
            _log.exception("an event stream of many streams could not go on")
            self.end()
            return None

    def _do_some(self) -> bool:
        """Do some things; tells whether there is more to do now."""
        may_walk = True
        for _ in range(self._step_things):
            if self._busy or self._sink is None:
                return False
            if self._out_bytes >= _STEP_BYTES:
                return True
            if self._pieces is not None:
                self._send_piece()
            elif self._joins:
                self._join(self._joins.popleft())
            elif not self._is_told:
                self._tell()
            elif self._can_walk and may_walk:
                may_walk = False  # once in a step: a page takes some milliseconds
                self._walk_on()
            elif self._ready:
                self._send_next(self._ready.popleft())
            else:
                return self._can_walk
        return not self._busy

    @property
    def _can_walk(self) -> bool:
        walk = self._walk
        return walk is not None and (walk.is_walking or walk.has_new) and len(self._ready) < _PAGE

    @property
    def _is_over(self) -> bool:
        is_idle = not self._busy and not self._joins and self._pieces is None
        return is_idle and not self._followed and self._walk is None

    def _emit(self, written: bytes) -> None:
        self._emit_frame(plain_frame(written))

    def _emit_frame(self, frame: Frame) -> None:
        self._out.append(frame)
        self._out_bytes += len(frame.events)

    def _flush(self) -> None:
        out, self._out, self._out_bytes = self._out, [], 0
        if out and self._sink is not None:
            self._last_sent_s = self._live.now_s
            self._sink.write(out[0] if len(out) == 1 else plain_frame(b"".join([one.events for one in out])))

    def _await(self, found: Eventually[Any], then: Callable[[Any], None]) -> None:
        """Go on with what the store finds; nothing else is done before."""
        if not isinstance(found, Pending):
            then(found)
            return
        self._busy = True

        def arrived(value: Any) -> None:
            self._busy = False
            if self._sink is not None:
                self._guarded(partial(then, value))
                self._flush()
                self._queue()

        found.then(arrived)

    # -- Joining and leaving -----------------------------------------------------------------------

    def _join(self, join: Join) -> None:
        name = join.name
        known = self._followed.get(name)
        if known is not None:
            if join.id <= known.id:
                return
            self._emit(events.deleted(name, known.position))  # its name has a new stream
            self._drop(known)
        refusal = self._refuse(name) if not join.by_glob else None
        if refusal is not None:
            self._emit(events.failed(refusal, name))
            return
        if len(self._followed) >= MAX_STREAMS:
            self._emit(events.failed(problems.TOO_MANY_FOLLOWED))
            self._flush()
            self.end()
            return
        stream = self._followed[name] = _Followed(self, join)
        self._live.hub.watch(name, stream)
        self._await(self._peek(name, join.offset), partial(self._joined, stream))

    def _peek(self, name: str, begin: int | origins.Origin) -> Eventually[Read]:
        asked = ReadRequest(begin) if isinstance(begin, int) else ReadRequest(origin=begin)
        return self._live.store.read(name, asked, MAX_EVENT_BYTES, self._live.clock_ms(), peek=True)

    def _joined(self, stream: _Followed, found: Read) -> None:
        name = stream.name
        if not isinstance(found, Chunk):
            if isinstance(found, NotFound | SoftDeleted) or stream.by_glob:
                self._refused(stream, found)
            else:  # the offset may be one of another stream
                self._await(self._peek(name, NOW), partial(self._refused_at_offset, stream, found))
            return
        if stream.by_glob and found.stream_id != stream.id:
            self._drop(stream)  # it is gone already, and what has its name now joins by itself
            return
        if self._is_another(stream, found):
            self._replace(stream, found)
            return
        stream.id, stream.position = found.stream_id, found.start
        if found.lifetime.is_sliding:  # cached frames are sent without a read of the store
            self._live.store.read(name, ReadRequest(NOW), 1, self._live.clock_ms())
        self._emit(events.joined(name, found))
        if found.start == found.end and found.at_end:
            self._drop(stream)
        elif found.start < found.end:
            self.ready(stream)

    def _is_another(self, stream: _Followed, found: Chunk) -> bool:
        """Tell whether a named stream was deleted and created again since the client was told of it."""
        is_new = not stream.by_glob and self._asked.origin.is_new(found.stream_id)
        return is_new and self._asked.first_glob(stream.name) is not None

    def _replace(self, stream: _Followed, found: Chunk) -> None:
        assert self._walk is not None
        self._emit(events.deleted(stream.name, found.start))
        self._drop(stream)
        self._walk.add_new(stream.name, found.stream_id)

    def _refused_at_offset(self, stream: _Followed, refusal: Read, found: Read) -> None:
        if isinstance(found, Chunk) and self._is_another(stream, found):
            self._replace(stream, found)
        else:
            self._refused(stream, refusal)

    def _refused(self, stream: _Followed, found: Read) -> None:
        """Say why a stream cannot be followed; one of a glob that is gone again was never there."""
        self._drop(stream)
        if not stream.by_glob or not isinstance(found, NotFound | SoftDeleted):
            refusal = ReadFailed() if isinstance(found, Chunk) else found
            self._emit(events.failed(replies.reply_to(refusal), stream.name))

    def _drop(self, stream: _Followed) -> None:
        """Stop following a stream."""
        live, name = self._live, stream.name
        live.hub.unwatch(name, stream)
        if name not in live.hub.readers:
            live.frames.forget(name)
        if self._followed.get(name) is stream:
            del self._followed[name]
        stream.is_ready = True  # never again

    # -- Globs -------------------------------------------------------------------------------------

    def _walk_on(self) -> None:
        walk = self._walk
        assert walk is not None
        if walk.is_walking:
            self._await(walk.next_page(self._page_size, self._live.clock_ms()), self._take_page)
        else:
            join = walk.next_new()
            if self._refuse(join.name) is None:
                self._joins.append(join)
            self._is_told = False

    def _take_page(self, page: Listed) -> None:
        """Let the streams of a page join; those that may not be read are left out, as in a listing."""
        if not isinstance(page, Page):
            self.end()  # the client comes back
            return
        assert self._walk is not None
        joins = [join for join in self._walk.take(page) if self._refuse(join.name) is None]
        self._joins.extend(joins)
        self._last_told, self._is_told = joins[-1].name if joins else None, False

    def _tell(self) -> None:
        """Tell the client from where it can go on: all that was found has joined."""
        walk = self._walk
        assert walk is not None
        self._is_told = True
        is_later = walk.told(self._last_told)
        if walk.is_walking and not is_later:
            return
        self._emit(events.told(walk.origin, up_to_date=not walk.is_walking))
        walk.walk_again()

    # -- Data --------------------------------------------------------------------------------------

    def _send_next(self, stream: _Followed) -> None:
        if self._followed.get(stream.name) is not stream:
            return
        stream.is_ready = False
        now_ms = self._live.clock_ms()
        cursor = cursors.current_cursor(now_ms)
        found = self._live.frames.next(stream.name, stream.position, cursor, now_ms)
        self._await(found, partial(self._send, stream))

    def _send(self, stream: _Followed, found: Next) -> None:
        if self._followed.get(stream.name) is not stream:
            return
        if isinstance(found, LongMessage) and found.stream_id == stream.id:
            self._pieces, self._sending = found.frames(tagged=True), stream
        elif isinstance(found, Frame) and found.stream_id == stream.id:
            if found.has_data or found.last:
                self._emit_frame(found.tagged(stream.name))
            self._moved(stream, found)
        else:
            self._await(self._peek(stream.name, NOW), partial(self._lost, stream))

    def _send_piece(self) -> None:
        assert self._pieces is not None
        assert self._sending is not None
        frame = next(self._pieces)
        if frame is None:  # the event is incomplete, so nothing can follow it
            self._out.clear()
            self.end()
            return
        self._emit_frame(frame)
        if frame.end != self._sending.position:
            self._pieces = None
            self._moved(self._sending, frame)

    def _moved(self, stream: _Followed, frame: Frame) -> None:
        stream.position = frame.end
        if frame.last:
            self._drop(stream)
        elif frame.more:
            self.ready(stream)

    def _lost(self, stream: _Followed, found: Read) -> None:
        """Say that a stream is gone, or why it cannot be read any more."""
        match found:
            case Chunk(stream_id=id) if id == stream.id:
                self._await(self._peek(stream.name, stream.position), partial(self._refused, stream))
            case Chunk() | NotFound() | SoftDeleted():
                self._emit(events.deleted(stream.name, stream.position))
                self._drop(stream)
            case _:
                self._refused(stream, found)
