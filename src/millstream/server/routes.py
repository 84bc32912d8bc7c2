"""Routes: from a request to its answer.

Each route is three steps: parse what was asked (`protocol.requests`), let the store decide and keep
it, and turn the decision into a reply (`protocol.replies`). Nothing here knows a socket, so every
server that can make a `Request` answers alike.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import msgspec

from millstream.protocol import caching, headers, parts, problems, replies, streams
from millstream.protocol.errors import RequestError
from millstream.protocol.http import Header, Reply
from millstream.protocol.names import (
    STREAM_ROOTS,
    below_mount,
    check_length,
    control_path,
    is_reserved,
    parse_name,
)
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.queries import Query
from millstream.protocol.reads import Chunk, PollOutcome, poll_outcome
from millstream.protocol.replies import reply_to
from millstream.protocol.requests import (
    AppendRequest,
    CreateRequest,
    LiveMode,
    ReadRequest,
    asks_what_get_answers,
    check_content,
    location,
    parse_append,
    parse_create,
    parse_read,
)
from millstream.protocol.streams import NotFound, Stream
from millstream.server import compression
from millstream.server.access import cors
from millstream.server.access.admission import Admission
from millstream.server.access.auth import Auth, keep_private, refuse
from millstream.server.access.grants import Action
from millstream.server.access.limits import Limits
from millstream.server.access.origins import Origins
from millstream.server.anycable.reads import Reads as AnyCableReads
from millstream.server.compression import MIN_BYTES
from millstream.server.control import Control
from millstream.server.listing import CursorSeal, Listing
from millstream.server.live.feeds import EventFeed
from millstream.server.live.long_polls import LongPoll
from millstream.server.live.readers import Caller, LiveReaders
from millstream.server.long_answers import LongBody
from millstream.server.pages import at_root
from millstream.server.part_routes import PartRoutes
from millstream.server.request import SMALL_BODY_BYTES, Answer, Request
from millstream.server.settings import Settings
from millstream.server.telemetry.engine_metrics import EngineMetrics
from millstream.server.telemetry.latencies import CONTROL, LIVE
from millstream.server.telemetry.metrics import Labelled, Metrics
from millstream.server.workers import Workers, takes_long
from millstream.store.base import Appended, Created, Head, Read, Store
from millstream.store.pending import Eventually, Pending, when

_ACTIONS = {
    b"GET": Action.READ,
    b"HEAD": Action.READ,
    b"PUT": Action.WRITE,
    b"POST": Action.WRITE,
    b"DELETE": Action.WRITE,
}
_COUNTED_CONTROLS = ("streams", "metrics")  # what costs something; whether the server lives, all may ask
_COMPRESS_IN_THREAD_BYTES = 64 * 1024
_KEPT_PLACES = 8192
_VARY = (b"vary", b"accept-encoding")

Route = Callable[[str, Request], Answer]

_log = logging.getLogger("millstream")


class Routes:
    """Everything that the server answers."""

    def __init__(self, store: Store, settings: Settings, auth: Auth, clock_ms: Callable[[], int]) -> None:
        self.store = store
        self._path = settings.path
        self.live = LiveReaders(store, settings, clock_ms)
        self.metrics = Metrics()
        self.metrics.watch("ds_poll_clients_num", "Long-polls that wait now.", lambda: len(self.live.polls))
        self.metrics.watch(
            "ds_sse_clients_num", "Event streams that are open now.", lambda: len(self.live.feeds)
        )
        self.metrics.watch("millstream_readers", "Live readers now.", self._readers, label="mode")
        self.metrics.watch("millstream_streams", "Streams, also those kept for forks.", store.count_streams)
        self.metrics.include(EngineMetrics(store))
        self._clock_ms = clock_ms
        self._listing = Listing(store, CursorSeal(), clock_ms)
        self.admission = Admission(store, settings)
        self._workers = Workers()
        self.close = self._workers.close
        self._anycable_reads = AnyCableReads(self.live, self.metrics, self._coded)
        self.place = lru_cache(_KEPT_PLACES)(self._find_place)
        """Finds what a path names, and who answers there if it is not a stream."""
        self.adopt(settings, auth)
        self._methods: dict[bytes, Route] = {
            b"POST": self._append,
            b"GET": self._read,
            b"HEAD": self._head,
            b"PUT": self._create,
            b"DELETE": self._delete,
            b"OPTIONS": lambda _name, _request: cors.preflight(),
        }

    def adopt(self, settings: Settings, auth: Auth) -> None:
        """Go on with other settings and keys; where streams live stays as it was."""
        self.settings = self.live.settings = settings
        self.auth = auth
        self._max_name_bytes = settings.max_name_bytes
        self.cors = cors.Cors(settings.cors_origin)
        self._origins = Origins(settings, is_open=auth.is_open)
        self._checks_host, self._accepted_hosts = self._origins.checks_host, self._origins.accepted_hosts
        self.controls = Control(self.store, self.live, auth, self._listing, self.metrics, self._clock_ms)
        self._parts = PartRoutes(self.store, settings, self.metrics, self._clock_ms)
        self._limits = Limits(settings)
        self.is_guarded = self._limits.are_on or not auth.is_open
        """Whether anybody may be refused for who he is, or for how often he asks."""
        self.place.cache_clear()

    def _readers(self) -> Labelled:
        return {"long-poll": len(self.live.polls), "sse": len(self.live.feeds)}

    def refuse_head(self, request: Request) -> Reply | None:
        """Refuse a request with a large body by its head, before the body fills memory."""
        try:
            name, elsewhere = self.place(request.path, request.mount)
            if elsewhere is not None or request.method not in (b"PUT", b"POST"):
                return problems.UNEXPECTED_BODY
            refusal = None
            if not self.auth.is_open:
                refusal = self.auth.authorize(request, Action.WRITE, name, self._clock_ms() / 1000)
            return refusal if refusal is not None else self.admission.refusal()
        except RequestError as error:
            return problems.malformed(error)
        except Exception as error:
            return failed(error)

    def refused(self, client: bytes, reply: Reply) -> None:
        """Take note of an answer to what never became a whole request."""
        self.metrics.count(reply.status)

    def handle(self, request: Request) -> Answer:
        """Answer a request; whatever goes wrong becomes a reply."""
        try:
            if self._checks_host and request.headers.get(b"host") not in self._accepted_hosts:
                refusal = self._origins.refuse_host(request)
                if refusal is not None:
                    return refusal
            name, elsewhere = self.place(request.path, request.mount)
            if elsewhere is not None:
                request.route = CONTROL
                return elsewhere(name, request)
            route = self._methods.get(request.method)
            if route is None:
                return problems.method_not_allowed(cors.METHODS)
            if self.is_guarded:
                return self._guarded(route, name, request)
            return route(name, request)
        except RequestError as error:
            return problems.malformed(error)
        except Exception as error:
            return failed(error)

    def _find_place(self, path: bytes, mount: str) -> tuple[str, Route | None]:
        name = parse_name(path)
        anycable = self._below_anycable(name, mount)
        if anycable is not None:
            return anycable, self._anycable
        name = self._unmounted(name, mount)
        if name == "/":
            return name, lambda _name, request: at_root(request)
        return name, self._control if is_reserved(name, STREAM_ROOTS) else None

    def _guarded(self, route: Route, name: str, request: Request) -> Answer:
        """Answer who may ask this, and not too often."""
        rates = self._limits.by_address(request.client)
        if rates.refusal is None and request.method in _ACTIONS and not self.auth.is_open:
            refusal = self.auth.authorize(request, _ACTIONS[request.method], name, self._clock_ms() / 1000)
            if refusal is not None:
                return rates.written_on(refusal)
            rates = rates.and_then(self._limits.by_token(request.token))
        if rates.refusal is not None:
            return rates.written_on(rates.refusal)
        answer = route(name, request)
        if request.token:
            answer = when(answer, keep_private)
        return when(answer, rates.written_on) if rates else answer

    # -- Streams ---------------------------------------------------------------------------------

    def _append(self, name: str, request: Request) -> Answer:
        refusal = self.admission.refusal()
        fields = request.headers
        if refusal is None and (b"origin" in fields or b"sec-fetch-site" in fields):
            refusal = self._origins.refuse_write(request)
        if refusal is not None:
            return refusal
        body, is_encoded = request.body, b"content-encoding" in fields
        if (is_encoded or len(body) > SMALL_BODY_BYTES) and takes_long(request):
            return self._workers.parse(
                partial(self._parse_post, request), partial(self._after_work, self._post_later, name)
            )
        try:
            if request.query or is_encoded:
                posted = self._parse_post(request)
                if not isinstance(posted, AppendRequest):
                    return self._parts.post(name, posted)
            else:
                posted = parse_append(fields, body)
        except RequestError as error:
            return self._refuse_append(name, error)
        decision = self.store.append(name, posted, self._clock_ms())
        if isinstance(decision, streams.Append):  # the common case, without a detour
            return self._appended(decision)
        return when(decision, self._appended)

    def _parse_post(self, request: Request) -> AppendRequest | StageRequest | CommitRequest:
        body = self._body(request)
        found = parts.parse_post(Query(request.query), request.headers, body) if request.query else None
        return found or parse_append(request.headers, body)

    def _post_later(
        self, name: str, posted: AppendRequest | StageRequest | CommitRequest | RequestError
    ) -> Answer:
        """Go on with a POST whose body a worker has parsed."""
        if isinstance(posted, RequestError):
            return self._refuse_append(name, posted)
        overload = self.admission.refusal()  # again: more may have come meanwhile
        if overload is not None:
            return overload
        if not isinstance(posted, AppendRequest):
            return self._parts.post(name, posted)
        return when(self.store.append(name, posted, self._clock_ms()), self._appended)

    def _after_work(self, then: Callable[[str, Any], Answer], name: str, found: object) -> Answer:
        """Go on after a worker; whatever goes wrong becomes a reply."""
        if isinstance(found, Exception) and not isinstance(found, RequestError):
            return failed(found)
        try:
            return then(name, found)
        except RequestError as error:
            return problems.malformed(error)
        except Exception as error:
            return failed(error)

    def _refuse_append(self, name: str, error: RequestError) -> Answer:
        """Refuse a malformed append; a stream that does not exist is reported first (rule A2)."""
        found = self.store.head(name, self._clock_ms())
        return when(found, partial(problems.missing_or_malformed, error=error))

    def _appended(self, decision: Appended) -> Reply:
        if not isinstance(decision, streams.Append):
            return reply_to(decision)
        self.metrics.appends += 1
        self.metrics.appended_bytes += len(decision.data)
        return replies.appended(decision)

    def _create(self, name: str, request: Request) -> Answer:
        check_length(name, self._max_name_bytes)
        refusal = self.admission.refusal() or self._origins.refuse_write(request)
        if refusal is not None:
            return refusal
        if takes_long(request):
            then = partial(self._create_later, request)
            return self._workers.parse(
                partial(self._parse_create, request), partial(self._after_work, then, name)
            )
        return self._plan_create(request, name, parse_create(request.headers, self._body(request)))

    def _parse_create(self, request: Request) -> CreateRequest:
        return check_content(parse_create(request.headers, self._body(request)))

    def _create_later(self, request: Request, name: str, create: CreateRequest | RequestError) -> Answer:
        """Go on with a PUT whose body a worker has parsed."""
        if isinstance(create, RequestError):
            raise create
        overload = self.admission.refusal()
        return overload if overload is not None else self._plan_create(request, name, create)

    def _plan_create(self, request: Request, name: str, create: CreateRequest) -> Answer:
        if create.forked_from is not None:
            source = self._unmounted(create.forked_from, request.mount)
            refusal = refuse(request.grant, Action.READ, source)
            if refusal is not None:
                return refusal
            create = msgspec.structs.replace(create, forked_from=source)

        def reply(decision: Created) -> Reply:
            if isinstance(decision, streams.Create):
                return replies.created(decision.stream, self._location(request))
            return reply_to(decision)

        return when(self.store.create(name, create, self._clock_ms()), reply)

    def _read(self, name: str, request: Request) -> Answer:
        self.metrics.reads += 1
        url = request.path + b"?" + request.query
        if request.token or b"authorization" in request.headers:  # else the response is public
            url = request.cache_control + url  # a path begins with a slash, so these never collide
        recent = self.live.responses.find(url)
        if recent is not None and b"if-none-match" not in request.headers:
            return recent
        read = parse_read(Query(request.query))
        if read.live is not LiveMode.NO:
            return self._live_read(name, request, read)
        max_bytes, piece_bytes = self.settings.max_chunk_bytes, self.live.piece_bytes
        found = self.store.read(name, read, max_bytes, self._clock_ms(), held_bytes=piece_bytes)
        if isinstance(found, Chunk):  # the common case, without a detour
            return self._read_reply(name, request, read, url, found)
        return when(found, partial(self._read_reply, name, request, read, url))

    def _read_reply(self, name: str, request: Request, read: ReadRequest, url: bytes, found: Read) -> Answer:
        if isinstance(found, Chunk) and not found.is_held:
            if not self._compresses(request, found):
                return self._long_reply(name, request, read, found)
            held = self.store.read(name, read, self.live.piece_bytes, self._clock_ms())
            return when(held, partial(self._read_reply, name, request, read, url))
        reply = _read_reply(request, read, found)
        if len(reply.body) >= MIN_BYTES:
            return self._coded(request, reply)
        if reply.status == 200 and isinstance(found, Chunk) and not found.lifetime:
            self.live.responses.keep(name, url, reply)
        return reply

    def _long_reply(self, name: str, request: Request, read: ReadRequest, found: Chunk) -> Reply:
        reply = _read_reply(request, read, found)
        if reply.status != 200:
            return reply
        return Reply(200, [*reply.headers, _VARY], LongBody(self.store, name, found))

    def _compresses(self, request: Request, found: Chunk) -> bool:
        accepted = request.headers.get(b"accept-encoding", b"")
        return self.settings.compress and compression.choose(accepted, found.content_type) is not None

    def _coded(self, request: Request, reply: Reply) -> Answer:
        """Compress a reply if it is worth it, off the event loop when it is large."""
        body = reply.body
        if len(body) < MIN_BYTES or reply.status != 200 or not self.settings.compress:
            return reply
        assert isinstance(body, bytes)  # what is longer is not compressed
        coding, fields = _choose_coding(request, reply)
        if coding is None or len(body) < _COMPRESS_IN_THREAD_BYTES:
            return Reply(200, fields, compression.compress(body, coding) if coding else body)
        pending: Pending[Reply | EventFeed] = Pending()
        work = asyncio.get_running_loop().run_in_executor(None, compression.compress, body, coding)
        work.add_done_callback(lambda done: pending.settle(Reply(200, fields, done.result())))
        return pending

    def _live_read(self, name: str, request: Request, read: ReadRequest) -> Answer:
        sse = read.live is LiveMode.SSE
        self.metrics.feeds += sse
        self.metrics.polls += not sse
        request.route = LIVE
        now_ms = self._clock_ms()
        found = self.store.read(name, read, self.live.piece_bytes, now_ms, peek=sse)
        caller = Caller(request.grant.lasts_s(now_ms / 1000), request.cache_control)
        return when(found, partial(self._feed if sse else self._long_poll, name, read, caller))

    def _feed(self, name: str, read: ReadRequest, caller: Caller, found: Read) -> Reply | EventFeed:
        if not isinstance(found, Chunk):
            return reply_to(found)
        return EventFeed(self.live, name, read, found, caller)

    def _long_poll(self, name: str, read: ReadRequest, caller: Caller, found: Read) -> Answer:
        if not isinstance(found, Chunk):
            return reply_to(found)
        outcome = poll_outcome(found, read.until)
        if outcome is PollOutcome.DATA:
            cursor, cache = self.live.cursor_after(read.cursor), caching.for_read(read.offset, caller.cache)
            return replies.read(found, cursor=cursor, cache=cache)
        if outcome is PollOutcome.END:
            return replies.nothing_new(found, 0)
        return LongPoll(self.live, name, read, found, caller)

    def _head(self, name: str, request: Request) -> Answer:
        self.metrics.reads += 1
        query = Query(request.query)
        if not asks_what_get_answers(query):
            return when(self.store.head(name, self._clock_ms()), _head_reply)
        read = parse_read(query)
        found = self.store.read(name, read, self.settings.max_chunk_bytes, self._clock_ms(), peek=True)

        def shorten(found: Read) -> Eventually[Read]:
            piece_bytes = self.live.piece_bytes
            if not isinstance(found, Chunk) or found.end - found.start <= piece_bytes:
                return found
            if not self._compresses(request, found):
                return found
            return self.store.read(name, read, piece_bytes, self._clock_ms(), peek=True)

        def reply(found: Read) -> Reply:
            reply = _read_reply(request, read, found)
            size = found.end - found.start if isinstance(found, Chunk) else 0
            if size < MIN_BYTES or reply.status != 200 or not self.settings.compress:
                return reply
            return Reply(200, _choose_coding(request, reply)[1])

        return when(when(found, shorten), reply)

    def _delete(self, name: str, request: Request) -> Answer:
        if (refusal := self._origins.refuse_write(request)) is not None:
            return refusal
        dropped = self._parts.delete(name, request) if request.query else None
        if dropped is not None:
            return dropped
        return when(self.store.delete(name, self._clock_ms()), reply_to)

    def _below_anycable(self, name: str, mount: str) -> str | None:
        prefix = mount + self.settings.anycable_path
        return name[len(prefix) :] if self.settings.anycable and name.startswith(prefix + "/") else None

    def _anycable(self, name: str, request: Request) -> Answer:
        if request.method == b"OPTIONS":
            return cors.preflight()
        if request.method not in (b"GET", b"HEAD"):
            return problems.method_not_allowed(b"GET, HEAD, OPTIONS")
        request.route = b""
        if name == "/" or is_reserved(name, STREAM_ROOTS):
            return reply_to(NotFound(name))
        answer = self._guarded(self._anycable_reads.answer, name, request)
        if isinstance(answer, Reply) and problems.is_forbidden(answer):
            return problems.UNREADABLE_BY_TOKEN
        return answer

    # -- Control APIs ----------------------------------------------------------------------------

    def _control(self, name: str, request: Request) -> Answer:
        paths = [path for root in STREAM_ROOTS if (path := control_path(name, root)) is not None]
        route = self.controls.find(paths[0]) if paths else None
        if route is None:
            return problems.nothing_at(name)
        if request.method == b"OPTIONS":
            return cors.preflight()
        if request.method not in (b"GET", b"HEAD"):
            return problems.method_not_allowed(b"GET, HEAD, OPTIONS")
        if self._limits.are_on and paths[0] in _COUNTED_CONTROLS:
            rates = self._limits.by_address(request.client)
            return when(rates.refusal or route(request), rates.written_on)
        return route(request)

    # -- What requests share ---------------------------------------------------------------------

    def _unmounted(self, name: str, mount: str) -> str:
        return below_mount(name, mount + self._path)

    def _body(self, request: Request) -> bytes:
        coding = request.headers.get(b"content-encoding")
        if coding is None or not request.body:
            return request.body
        return compression.decompress(request.body, coding, self.settings.max_body_bytes)

    def _location(self, request: Request) -> bytes:
        trusted = self.settings.trust_forwarded
        return location(request.headers, request.scheme, request.path, trust_forwarded=trusted)


def failed(error: Exception) -> Reply:
    """Answer when nobody has thought of what went wrong."""
    _log.error("a request could not be answered", exc_info=error)
    return problems.INTERNAL_ERROR


def _read_reply(request: Request, read: ReadRequest, found: Read) -> Reply:
    if not isinstance(found, Chunk):
        return reply_to(found)
    return replies.read(
        found,
        request.headers.get(b"if-none-match"),
        cache=caching.for_read(read.offset, request.cache_control),
    )


def _head_reply(found: Head) -> Reply:
    return replies.head(found) if isinstance(found, Stream) else reply_to(found)


def _choose_coding(request: Request, reply: Reply) -> tuple[bytes | None, list[Header]]:
    """Choose how a reply is compressed, and give the headers that it has then."""
    accepted = request.headers.get(b"accept-encoding", b"")
    if not accepted:
        return None, [*reply.headers, _VARY]
    fields = dict(reply.headers)
    coding = compression.choose(accepted, fields.get(headers.CONTENT_TYPE, b""))
    if coding is not None:
        fields[b"content-encoding"] = coding
        if b"etag" in fields:
            fields[b"etag"] = caching.encoded_tag(fields[b"etag"], coding)
    return coding, [*fields.items(), _VARY]
