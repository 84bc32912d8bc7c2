"""Outputs: the streams that a query writes, and the requests to their server.

Every method is one request, retried while that is safe; a refusal raises the client's error, with the
server's message.
"""

import msgspec

from millstream.client.core import errors
from millstream.client.core.endpoints import Ask
from millstream.client.core.exchanges import Plan, R, exchange, flag, refusal, text
from millstream.client.core.extensions import PARTS
from millstream.client.core.models import ProducerStamp
from millstream.client.core.plans import writing
from millstream.client.core.plans.parts import Parts
from millstream.client.core.transport import Answer
from millstream.client.http.sync_sockets import shared_client
from millstream.client.sync.driving import run
from millstream.protocol import headers
from millstream.protocol.content import DEFAULT_TYPE, Kind, kind_of, same_type
from millstream.spark.lookups import Server
from millstream.spark.options import OptionError, SinkOptions

DEFAULT_CONTENT_TYPE = "application/json"


class OutputStream(msgspec.Struct, frozen=True):
    """A stream to write to, as it was when the task opened it."""

    name: str
    content_type: str
    kind: Kind
    commit: str
    closed: bool


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

    def stage(self, output: OutputStream, id: str, body: bytes) -> None:
        """Stage a part."""
        self._run(self._parts(output.name).stage_body(id, body, output.content_type))

    def commit(
        self, name: str, ids: list[str], stamp: ProducerStamp, *, closes: bool, fingerprint: str | None
    ) -> bool:
        """Commit parts atomically; False if this batch was committed before."""
        plan = self._parts(name).commit(ids, seq=None, stamp=stamp, closes=closes, fingerprint=fingerprint)
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
        wanted = self._options.content_type
        if wanted is not None and not same_type(wanted.encode("latin-1"), content_type.encode("latin-1")):
            raise errors.ContentTypeMismatchError(
                f"The stream holds {content_type}, and the option contentType is {wanted}",
                url=self._server.endpoint(name).url,
            )
        extensions = (text(answer, headers.MILLSTREAM_EXTENSIONS) or "").replace(" ", "").split(",")
        return OutputStream(
            name,
            content_type,
            kind_of(content_type.encode("latin-1")),
            _commit_mode(self._options.commit, has_parts=PARTS in extensions),
            flag(answer, headers.STREAM_CLOSED),
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
