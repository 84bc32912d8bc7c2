"""Lookups: what a query asks a server besides content.

Every method is one or a few requests, with the client's retries. A missing stream raises the client's
errors; the caller decides whether that is data loss.
"""

from collections.abc import Iterator, Sequence
from urllib.parse import quote, urlsplit

import msgspec

from millstream.client.core import errors
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Terms, exchange, flag, next_offset, refusal, text
from millstream.client.core.plans import listing
from millstream.client.core.plans.many import MOST, Many
from millstream.client.core.retry import Retry
from millstream.client.core.transport import Answer, Download
from millstream.client.http.sync_sockets import shared_client
from millstream.client.sync.driving import prepared, run
from millstream.protocol import headers
from millstream.protocol.content import DEFAULT_TYPE, Kind, kind_of
from millstream.spark.options import ServerOptions

BEGINNING = "-1"
_ZERO = "0000000000000000_0000000000000000"
_CHARACTER_BYTES = 4


class Found(msgspec.Struct, frozen=True):
    """The state of a stream; `bounded` if its server can read up to a given offset (`until`)."""

    tail: str
    closed: bool
    content_type: str
    bounded: bool
    incarnation: str | None = None
    """Which of the streams that its name had this one is; None where the server does not say."""

    @property
    def kind(self) -> Kind:
        """How its content is framed."""
        return kind_of(self.content_type.encode("latin-1"))


class NoListingError(errors.MillstreamError):
    """The server cannot list its streams, so a pattern cannot be matched."""

    default_code = "NO_LISTING"


class Server:
    """The server of a query, as one process uses it."""

    def __init__(self, options: ServerOptions) -> None:
        self.url = options.url
        self._headers = dict(options.headers)
        if options.token is not None:
            self._headers["Authorization"] = f"Bearer {options.token}"
        self.terms = Terms(Retry(max_attempts=options.retries + 1), options.timeout)
        self.many = Many(self.url, self._headers, self.terms)
        self._has_many: bool | None = None

    def endpoint(self, stream: str) -> Endpoint:
        """Return the endpoint of a stream."""
        return Endpoint(f"{self.url}/{quote(stream)}", self._headers)

    def look(self, stream: str) -> Found:
        """Look up a stream's tail, and whether it is closed."""
        answer = self._head(stream)
        extensions = answer.headers.get(headers.MILLSTREAM_EXTENSIONS, b"")
        return Found(
            tail=next_offset(answer, self.endpoint(stream).url),
            closed=flag(answer, headers.STREAM_CLOSED),
            content_type=_content_type(answer),
            bounded=b"until" in (word.strip() for word in extensions.split(b",")),
            incarnation=text(answer, headers.STREAM_INCARNATION),
        )

    def has_many(self) -> bool:
        """Return whether the server takes requests about many streams; asked once."""
        if self._has_many is None:
            self._has_many = run(shared_client(), self.many.is_there())
        return self._has_many

    def path(self, stream: str) -> str:
        """Return a stream's path, as the server lists it."""
        return f"{urlsplit(self.url).path.rstrip('/')}/{stream}"

    def named(self, streams: Sequence[str]) -> dict[str, Found]:
        """Look up many streams by name; those that there are not are left out."""
        by_path = {self.path(name): name for name in streams}
        paths, found = list(by_path), {}
        for first in range(0, len(paths), MOST):
            for listed in run(shared_client(), self.many.look_up(paths[first : first + MOST])):
                found[by_path[listed.path]] = _found(listed)
        return found

    def matching(self, pattern: str) -> dict[str, Found]:
        """List the streams below `url` whose names match a glob."""
        base = urlsplit(self.url).path
        found = {}
        for listed in self._listed(f"{base}/{pattern}"):
            if listed.path.startswith(f"{base}/"):
                name = listed.path[len(base) + 1 :]
                found[name] = _found(listed)
        return found

    def beginning(self, stream: str, *, bounded: bool) -> str:
        """Return the offset of a stream's first byte."""
        if not bounded:
            return BEGINNING
        return next_offset(self._head(stream, offset=BEGINNING, until=_ZERO), self.endpoint(stream).url)

    def at_time(self, stream: str, time: str) -> str | None:
        """Return where the first append begins that arrived at a time or later; None if it does not know."""
        return text(self._head(stream, offset=time), headers.STREAM_START_OFFSET)

    def step(self, stream: str, start: str, until: str, limit: int) -> str:
        """Return where a read of about `limit` bytes would end; never inside a character of text."""
        answer = self._head(stream, offset=start, until=until, limit=str(limit))
        reached = next_offset(answer, self.endpoint(stream).url)
        if kind_of(_content_type(answer).encode("latin-1")) is Kind.TEXT and reached != until:
            cut = self._rest_of_character(stream, reached)
            if cut:
                answer = self._head(stream, offset=reached, until=until, limit=str(cut))
                reached = next_offset(answer, self.endpoint(stream).url)
        return reached

    def some(self, stream: str, limit: int, offset: str, until: str) -> bytes:
        """Read some content after an offset."""
        params = (("limit", str(limit)), ("offset", offset), ("until", until))
        return self._send(self.endpoint(stream), self.ask(params)).body

    def check(self, stream: str, offset: str, incarnation: str | None = None) -> None:
        """Check that a stream can be read from an offset, and that it is not another one of the same name."""
        params = (("limit", "1"), ("offset", offset))
        endpoint = self.endpoint(stream)
        answer = self._send(endpoint, Ask(b"HEAD", params=params, timeout_s=self.terms.timeout_s))
        check_incarnation(answer, incarnation, endpoint.url)

    def wait(self, stream: str, offset: str, seconds: float) -> None:
        """Wait until there is something after an offset, for at most `seconds`."""
        params = (("limit", "1"), ("live", "long-poll"), ("offset", offset))
        ask = Ask(b"GET", params=params, timeout_s=seconds)
        try:
            with_head = shared_client().open(prepared(self.endpoint(stream), ask))
        except errors.TransportError as error:
            if error.code != "TIMEOUT":
                raise
        else:
            with_head.close()

    def open(self, stream: str, params: tuple[tuple[str, str], ...]) -> Download:
        """Begin a read; the caller checks the status and closes the download."""
        return shared_client().open(prepared(self.endpoint(stream), self.ask(params)))

    def ask(self, params: tuple[tuple[str, str], ...]) -> Ask:
        """Make the request of a read."""
        return Ask(b"GET", params=params, timeout_s=self.terms.timeout_s)

    def _rest_of_character(self, stream: str, offset: str) -> int:
        """Count the bytes at an offset that continue a character which began before it."""
        params = (("limit", str(_CHARACTER_BYTES)), ("offset", offset))
        answer = self._send(self.endpoint(stream), self.ask(params))
        body = answer.body[: _CHARACTER_BYTES - 1]
        return len(body) - len(body.lstrip(bytes(range(0x80, 0xC0))))

    def _listed(self, glob: str) -> Iterator[listing.Listed]:
        endpoint = listing.endpoint_of(self.url, self._headers)
        cursor: str | None = ""
        while cursor is not None:
            try:
                page = run(shared_client(), listing.page(endpoint, self.terms, glob=glob, cursor=cursor))
            except (errors.UnexpectedStatusError, errors.ParseError) as error:
                if error.status not in (404, None):
                    raise
                raise NoListingError(
                    "pattern needs a server that lists its streams, and url must be its base; "
                    "name the streams with the option streams instead",
                    url=endpoint.url,
                ) from None
            yield from page.streams
            cursor = page.cursor

    def _head(self, stream: str, **params: str) -> Answer:
        ask = Ask(b"HEAD", params=tuple(params.items()), timeout_s=self.terms.timeout_s)
        return self._send(self.endpoint(stream), ask)

    def _send(self, endpoint: Endpoint, ask: Ask) -> Answer:
        answer = run(shared_client(), exchange(endpoint, ask, self.terms, safe=True))
        if answer.status != 200:
            raise refusal(endpoint, ask, answer, self.terms)
        return answer


def check_incarnation(answer: Answer, expected: str | None, url: str) -> None:
    """Refuse an answer about another stream than the one that was planned."""
    found = text(answer, headers.STREAM_INCARNATION)
    if None not in (expected, found) and expected != found:
        raise errors.StreamGoneError("The stream was deleted, and made anew", url=url)


def _found(listed: listing.Listed) -> Found:
    return Found(
        listed.tail, listed.closed, listed.content_type, bounded=True, incarnation=listed.incarnation
    )


def _content_type(answer: Answer) -> str:
    return text(answer, headers.CONTENT_TYPE) or DEFAULT_TYPE.decode()
