"""Many streams in one request: looking them up, staging and committing parts. An extension (`many`).

Only what succeeds is told apart here: what an entry was refused for is learned by asking for it alone, which
also has the retries that it may need.

docs/protocol.md, "Parts of many streams"; rules X2, X5.
"""

import struct
from collections.abc import Sequence

import msgspec

from millstream.client.core import errors
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange, refusal
from millstream.client.core.models import HeadersLike, ProducerStamp
from millstream.client.core.plans.listing import Listed
from millstream.protocol import headers

MOST = 5_000
"""How many streams to put into one request; servers take 10,000."""

_JSON = {headers.CONTENT_TYPE: b"application/json"}
_RAW = {headers.CONTENT_TYPE: b"application/vnd.millstream.parts"}
_LENGTH = struct.Struct(">I")


class StagedPart(msgspec.Struct, frozen=True):
    """A part to stage; `path` is the stream's, as a listing has it."""

    path: str
    part: str
    content_type: str
    data: bytes


class PartsCommit(msgspec.Struct, frozen=True):
    """Parts of one stream to commit."""

    path: str
    parts: list[str]
    stamp: ProducerStamp
    closed: bool = False
    fingerprint: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What became of one entry: 204 is a duplicate where a commit has a stamp."""

    status: int
    code: str | None = None


class _Outcomes(msgspec.Struct):
    outcomes: list[Outcome]


class _Named(msgspec.Struct):
    streams: list[Listed]


_outcomes = msgspec.json.Decoder(_Outcomes)
_named = msgspec.json.Decoder(_Named)


class Many:
    """Requests about many streams of one server."""

    def __init__(self, url: str, fields: HeadersLike | None, terms: Terms) -> None:
        self._streams = Endpoint(f"{url.rstrip('/')}/__ds/streams", fields)
        self._parts = Endpoint(f"{url.rstrip('/')}/__ds/parts", fields)
        self._terms = terms

    def is_there(self) -> Plan[bool]:
        """Return whether the server has this extension."""
        ask = Ask(b"OPTIONS", timeout_s=self._terms.timeout_s)
        answer = yield from exchange(self._streams, ask, self._terms, safe=True)
        words = answer.headers.get(headers.MILLSTREAM_EXTENSIONS, b"").split(b",")
        return b"many" in (word.strip() for word in words)

    def look_up(self, paths: Sequence[str]) -> Plan[list[Listed]]:
        """Look up those streams that there are."""
        body = msgspec.json.encode({"paths": paths})
        ask = Ask(b"POST", _JSON, body=body, timeout_s=self._terms.timeout_s)
        answer = yield from exchange(self._streams, ask, self._terms, safe=True)
        if answer.status != 200:
            raise refusal(self._streams, ask, answer, self._terms)
        try:
            return _named.decode(answer.body).streams
        except msgspec.MsgspecError as error:
            raise errors.ParseError(f"The answer cannot be parsed ({error})", url=self._streams.url) from None

    def stage(self, parts: Sequence[StagedPart]) -> Plan[list[Outcome]]:
        """Stage parts."""
        pieces: list[bytes] = []
        for one in parts:
            head = {"path": one.path, "part": one.part, "contentType": one.content_type}
            for piece in (msgspec.json.encode(head), one.data):
                pieces += (_LENGTH.pack(len(piece)), piece)
        ask = Ask(b"POST", _RAW, (("stage", ""),), b"".join(pieces), self._terms.timeout_s)
        return (yield from self._send(ask, len(parts)))

    def commit(self, commits: Sequence[PartsCommit]) -> Plan[list[Outcome]]:
        """Commit parts, each stream's atomically by itself."""
        entries = [_entry(one) for one in commits]
        body = msgspec.json.encode({"entries": entries})
        ask = Ask(b"POST", _JSON, (("commit", ""),), body, self._terms.timeout_s)
        return (yield from self._send(ask, len(commits)))

    def _send(self, ask: Ask, count: int) -> Plan[list[Outcome]]:
        # Safe to repeat: staging changes nothing the second time, and commits have stamps.
        answer = yield from exchange(self._parts, ask, self._terms, safe=True)
        if answer.status != 200:
            raise refusal(self._parts, ask, answer, self._terms)
        try:
            found = _outcomes.decode(answer.body).outcomes
        except msgspec.MsgspecError as error:
            raise errors.ParseError(f"The answer cannot be parsed ({error})", url=self._parts.url) from None
        if len(found) != count:
            raise errors.ParseError(f"{count} entries have {len(found)} outcomes", url=self._parts.url)
        return found


def _entry(one: PartsCommit) -> dict[str, object]:
    stamp = one.stamp
    return {
        "path": one.path,
        "parts": one.parts,
        "producer": {"id": stamp.id, "epoch": stamp.epoch, "seq": stamp.seq},
        "closed": one.closed,
        "fingerprint": one.fingerprint,
    }
