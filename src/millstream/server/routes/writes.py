"""Writes: POST, PUT, PATCH and DELETE of a stream, from the request to its answer.

Each one is parsed (`protocol.requests`), decided and stored by the store, and the decision becomes a reply.
A body that takes long to decode or to check is parsed by a worker first; the decision is made afterwards.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from millstream.protocol import lifecycle, parts, problems, replies, streams, trims
from millstream.protocol.errors import RequestError
from millstream.protocol.headers import CONTENT_TYPE
from millstream.protocol.http import Reply
from millstream.protocol.many_parts import Entry, parse_many
from millstream.protocol.names import below_mount, check_length
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.queries import Query
from millstream.protocol.replies import reply_to
from millstream.protocol.requests import (
    AppendRequest,
    CreateRequest,
    check_content,
    location,
    parse_append,
    parse_create,
)
from millstream.protocol.trims import TrimRequest
from millstream.server import compression
from millstream.server.access.admission import Admission
from millstream.server.access.auth import refuse
from millstream.server.access.grants import Action
from millstream.server.access.origins import Origins
from millstream.server.request import SMALL_BODY_BYTES, Answer, Request
from millstream.server.routes import many_parts
from millstream.server.routes.changes import ChangeRoutes
from millstream.server.routes.many_parts import ManyParts
from millstream.server.routes.parts import PartRoutes
from millstream.server.settings import Settings
from millstream.server.telemetry.metrics import Metrics
from millstream.server.workers import BODY_THREADS, Workers, takes_long
from millstream.store.base import Appended, Created, Store
from millstream.store.pending import when

Posted = AppendRequest | StageRequest | CommitRequest | TrimRequest

_log = logging.getLogger("millstream")


class WriteRoutes:
    """Answers writes."""

    def __init__(
        self, store: Store, admission: Admission, metrics: Metrics, path: str, clock_ms: Callable[[], int]
    ) -> None:
        self.store = store
        self.admission = admission
        self.metrics = metrics
        self._path = path
        self._clock_ms = clock_ms
        self._changes = ChangeRoutes(store, clock_ms)
        self._workers = Workers("bodies", BODY_THREADS)
        self.close = self._workers.close

    def adopt(self, settings: Settings, origins: Origins) -> None:
        """Continue with other settings."""
        self.settings = settings
        self._max_name_bytes = settings.max_name_bytes
        self._origins = origins
        self._parts = PartRoutes(self.store, settings, self.metrics, self._clock_ms)

    def append(self, name: str, request: Request) -> Answer:
        """Answer a POST."""
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
                    return self._post_other(name, posted)
            else:
                posted = parse_append(fields, body)
        except RequestError as error:
            return self._refuse_missing(name, error)
        decision = self.store.append(name, posted, self._clock_ms())
        if isinstance(decision, streams.Append):  # the common case, without a detour
            return self._appended(decision)
        return when(decision, self._appended)

    def post_many(self, request: Request) -> Answer:
        """Answer a POST about parts of many streams; its caller is known."""
        refusal = self.admission.refusal() or self._origins.refuse_write(request)
        if refusal is not None:
            return refusal
        if b"content-encoding" in request.headers or len(request.body) > many_parts.SMALL_BYTES:
            then = partial(self._post_entries, request)
            return self._workers.parse(
                partial(self._parse_many, request), partial(self._after_work, then, "")
            )
        return self._post_entries(request, "", self._parse_many(request))

    def _parse_many(self, request: Request) -> list[Entry]:
        content_type = request.headers.get(CONTENT_TYPE, b"")
        return parse_many(Query(request.query), content_type, self._body(request))

    def _post_entries(self, request: Request, _name: str, entries: list[Entry] | RequestError) -> Answer:
        if isinstance(entries, RequestError):
            raise entries
        return ManyParts(self._parts, self.admission, self._refuse_missing, request.grant).answer(entries)

    def _parse_post(self, request: Request) -> Posted:
        body = self._body(request)
        if not request.query:
            return parse_append(request.headers, body)
        query = Query(request.query)
        return (
            trims.parse_trim(query, body)
            or parts.parse_post(query, request.headers, body)
            or parse_append(request.headers, body)
        )

    def _post_other(self, name: str, posted: StageRequest | CommitRequest | TrimRequest) -> Answer:
        """Answer a POST that is not a plain append."""
        if isinstance(posted, TrimRequest):
            return self._changes.trim(name, posted)
        return self._parts.post(name, posted)

    def _post_later(self, name: str, posted: Posted | RequestError) -> Answer:
        """Go on with a POST whose body a worker has parsed."""
        if isinstance(posted, RequestError):
            return self._refuse_missing(name, posted)
        overload = self.admission.refusal()  # again: more may have come meanwhile
        if overload is not None:
            return overload
        if not isinstance(posted, AppendRequest):
            return self._post_other(name, posted)
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

    def _refuse_missing(self, name: str, error: RequestError) -> Answer:
        """Refuse a malformed request; a stream that does not exist is reported first (rule A2)."""
        found = self.store.head(name, self._clock_ms())
        return when(found, partial(problems.missing_or_malformed, error=error))

    def _appended(self, decision: Appended) -> Reply:
        if not isinstance(decision, streams.Append):
            return reply_to(decision)
        self.metrics.appends += 1
        self.metrics.appended_bytes += len(decision.data)
        return replies.appended(decision)

    def create(self, name: str, request: Request) -> Answer:
        """Answer a PUT."""
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
            if isinstance(decision, lifecycle.Create):
                return replies.created(decision.stream, self._location(request))
            return reply_to(decision)

        return when(self.store.create(name, create, self._clock_ms()), reply)

    def configure(self, name: str, request: Request) -> Answer:
        """Answer a PATCH."""
        refusal = self.admission.refusal() or self._origins.refuse_write(request)
        if refusal is not None:
            return refusal
        try:
            return self._changes.configure(name, request)
        except RequestError as error:
            return self._refuse_missing(name, error)

    def delete(self, name: str, request: Request) -> Answer:
        """Answer a DELETE."""
        if (refusal := self._origins.refuse_write(request)) is not None:
            return refusal
        dropped = self._parts.delete(name, request) if request.query else None
        if dropped is not None:
            return dropped
        return when(self.store.delete(name, self._clock_ms()), reply_to)

    def _body(self, request: Request) -> bytes:
        coding = request.headers.get(b"content-encoding")
        if coding is None or not request.body:
            return request.body
        return compression.decompress(request.body, coding, self.settings.max_body_bytes)

    def _location(self, request: Request) -> bytes:
        trusted = self.settings.trust_forwarded
        return location(request.headers, request.scheme, request.path, trust_forwarded=trusted)

    def _unmounted(self, name: str, mount: str) -> str:
        return below_mount(name, mount + self._path)


def failed(error: Exception) -> Reply:
    """Answer when nobody has thought of what went wrong."""
    _log.error("a request could not be answered", exc_info=error)
    return problems.INTERNAL_ERROR
