"""Outputs: the streams that a query writes, and the requests to their server.

Every method is one request, retried while that is safe; a refusal raises the client's error, with the
server's message.
"""

import random
from concurrent.futures import ThreadPoolExecutor

import msgspec

from millstream.client.core import errors
from millstream.client.core.endpoints import Ask
from millstream.client.core.exchanges import Plan, R, exchange, flag, refusal, text
from millstream.client.core.extensions import PARTS
from millstream.client.core.models import ProducerStamp
from millstream.client.core.plans import writing
from millstream.client.core.plans.many import MOST, PartsCommit, StagedPart
from millstream.client.core.plans.parts import Parts
from millstream.client.core.transport import Answer
from millstream.client.http.sync_sockets import shared_client
from millstream.client.sync.driving import run
from millstream.protocol import headers
from millstream.protocol.content import DEFAULT_TYPE, Kind, kind_of, same_type
from millstream.spark.lookups import Server
from millstream.spark.options import OptionError, SinkOptions

DEFAULT_CONTENT_TYPE = "application/json"
_MANY = 8
"""From how many streams on they are opened together."""
_CONNECTIONS = 8
_TOGETHER = 200
"""How many streams are created before those that come next are looked up again."""


class OutputStream(msgspec.Struct, frozen=True):
    """A stream to write to, as it was when the task opened it."""

    name: str
    content_type: str
    kind: Kind
    commit: str
    closed: bool


class StreamCommit(msgspec.Struct, frozen=True):
    """The parts of a batch for one stream; the fingerprint is what a repetition is compared by."""

    name: str
    ids: list[str]
    fingerprint: str | None
    closes: bool


class Outputs:
    """The streams of one server."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._server = Server(options)
        self._found: dict[str, OutputStream] = {}
        self._staging: dict[str, Parts] = {}

    def open(self, name: str) -> OutputStream:
        """Find or create a stream, and choose how a batch is committed."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._output(name, self._find(name))
        return found

    def open_all(self, names: list[str]) -> None:
        """Find or create many streams in a few requests; `open` then has them, or the error of one."""
        unknown = [name for name in names if name not in self._found]
        if len(unknown) < _MANY or not self.takes_many():
            return
        missing = self._find_all(unknown)
        if self._options.create_missing:
            self._create_all(missing)

    def _find_all(self, names: list[str]) -> list[str]:
        """Look up streams in a few requests, and return those that there are not."""
        found = self._server.named(names)
        for name, stream in found.items():
            self._found[name] = self._as_output(
                name, stream.content_type, closed=stream.closed, has_parts=True
            )
        return [name for name in names if name not in found]

    def _create_all(self, missing: list[str]) -> None:
        """Create missing streams, some at a time.

        The other tasks of a batch miss the same ones. Each begins elsewhere, and looks before it goes on, so
        that they share the work.
        """
        begin = random.randrange(len(missing)) if missing else 0
        ordered = missing[begin:] + missing[:begin]
        with ThreadPoolExecutor(_CONNECTIONS, "millstream-create") as threads:
            for first in range(0, len(ordered), _TOGETHER):
                some = ordered[first : first + _TOGETHER]
                list(threads.map(self._create, self._find_all(some) if first else some))

    def _create(self, name: str) -> None:
        """Create a stream that was not there a moment ago."""
        wanted = self._options.content_type or DEFAULT_CONTENT_TYPE
        endpoint = self._server.endpoint(name)
        try:
            made = self._run(writing.create(endpoint, self._server.terms, content_type=wanted))
        except errors.StreamExistsError:
            self.open(name)  # somebody else has made it, differently
            return
        self._found[name] = self._as_output(
            name, made.content_type or wanted, closed=made.stream_closed, has_parts=True
        )

    def takes_many(self) -> bool:
        """Return whether parts of many streams can be sent in one request."""
        return self._server.has_many()

    def stage_all(self, parts: list[tuple[OutputStream, str, bytes]]) -> None:
        """Stage parts of many streams."""
        entries = [
            StagedPart(self._server.path(output.name), id, output.content_type, body)
            for output, id, body in parts
        ]
        for (output, id, body), outcome in zip(
            parts, self._run(self._server.many.stage(entries)), strict=True
        ):
            if outcome.status != 204:  # asked for alone, for the reason, or for a retry
                self.stage(output, id, body)

    def commit_all(self, commits: list[StreamCommit], stamp: ProducerStamp) -> list[str]:
        """Commit parts of many streams, and return those for which this batch was committed before."""
        repeated = []
        for first in range(0, len(commits), MOST):
            some = commits[first : first + MOST]
            entries = [
                PartsCommit(self._server.path(one.name), one.ids, stamp, one.closes, one.fingerprint)
                for one in some
            ]
            for one, outcome in zip(some, self._run(self._server.many.commit(entries)), strict=True):
                is_known = outcome.status in (200, 204)
                if outcome.status == 204 or (not is_known and not self.commit(one, stamp)):
                    repeated.append(one.name)
        return repeated

    def stage(self, output: OutputStream, id: str, body: bytes) -> None:
        """Stage a part."""
        self._run(self._parts(output.name).stage_body(id, body, output.content_type))

    def commit(self, one: StreamCommit, stamp: ProducerStamp) -> bool:
        """Commit parts atomically; False if this batch was committed before."""
        plan = self._parts(one.name).commit(
            one.ids, seq=None, stamp=stamp, closes=one.closes, fingerprint=one.fingerprint
        )
        return not self._run(plan).duplicate

    def append(
        self, output: OutputStream, body: bytes, stamp: ProducerStamp, *, closes: bool = False
    ) -> None:
        """Append; a repetition is not stored again."""
        terms, content_type = self._server.terms, output.content_type.encode("latin-1")
        ask = writing.append_ask(body, terms, content_type, stamp=stamp, closes=closes)
        self._run(writing.append(self._server.endpoint(output.name), terms, ask))

    def close(self, name: str) -> None:
        """Close a stream; idempotent."""
        self._run(writing.close(self._server.endpoint(name), self._server.terms, b"", b""))

    def drop(self, name: str, id: str) -> None:
        """Drop a part."""
        self._run(self._parts(name).drop(id))

    def _parts(self, name: str) -> Parts:
        if name not in self._staging:
            self._staging[name] = Parts(self._server.endpoint(name), self._server.terms)
        return self._staging[name]

    def _find(self, name: str) -> Answer:
        endpoint, terms = self._server.endpoint(name), self._server.terms
        ask = Ask(b"HEAD", timeout_s=terms.timeout_s)
        answer = self._run(exchange(endpoint, ask, terms, safe=True))
        if answer.status == 404 and self._options.create_missing:
            content_type = self._options.content_type or DEFAULT_CONTENT_TYPE
            self._run(writing.create(endpoint, terms, content_type=content_type))
            answer = self._run(exchange(endpoint, ask, terms, safe=True))
        if answer.status == 404:
            raise errors.StreamNotFoundError(
                "There is no such stream, and the option createMissing is false", url=endpoint.url
            )
        if answer.status != 200:
            raise refusal(endpoint, ask, answer, terms)
        return answer

    def _output(self, name: str, answer: Answer) -> OutputStream:
        content_type = text(answer, headers.CONTENT_TYPE) or DEFAULT_TYPE.decode()
        extensions = (text(answer, headers.MILLSTREAM_EXTENSIONS) or "").replace(" ", "").split(",")
        closed = flag(answer, headers.STREAM_CLOSED)
        return self._as_output(name, content_type, closed=closed, has_parts=PARTS in extensions)

    def _as_output(self, name: str, content_type: str, *, closed: bool, has_parts: bool) -> OutputStream:
        wanted = self._options.content_type
        if wanted is not None and not same_type(wanted.encode("latin-1"), content_type.encode("latin-1")):
            raise errors.ContentTypeMismatchError(
                f"The stream holds {content_type}, and the option contentType is {wanted}",
                url=self._server.endpoint(name).url,
            )
        return OutputStream(
            name,
            content_type,
            kind_of(content_type.encode("latin-1")),
            _commit_mode(self._options.commit, has_parts=has_parts),
            closed,
        )

    def _run(self, plan: Plan[R]) -> R:
        return run(shared_client(), plan)


def _commit_mode(wanted: str | None, *, has_parts: bool) -> str:
    if wanted == PARTS and not has_parts:
        raise OptionError("commit", "is parts, which this server does not have; choose driver or producer")
    if wanted is None and not has_parts:
        raise OptionError(
            "commit",
            "is missing, and this server has no parts. Choose driver (the driver appends each batch in one "
            "request, for small ones), or producer (tasks append, for plans that repeat themselves exactly)",
        )
    return wanted or PARTS
