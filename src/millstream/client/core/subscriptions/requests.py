"""The requests of the subscription routes, as plans, and the errors that their refusals mean.

The routes are below the stream root: `{root}/__ds/subscriptions/{id}`. Their errors have the form
`{"error": {"code", "message"}}`. What belongs to a claim carries the claim's token instead of the caller's.

PROTOCOL.md 6, 7; rules S1, S4.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from millstream.client.core import errors
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange, refusal
from millstream.client.core.models import HeadersLike
from millstream.client.core.subscriptions.errors import (
    FencedError,
    SubscriptionExistsError,
    SubscriptionNotFoundError,
)
from millstream.client.core.subscriptions.models import (
    Acknowledged,
    Claim,
    RotatedKeys,
    SubscriptionInfo,
    SubscriptionPage,
    Wake,
)
from millstream.client.core.transport import Answer

PAGE: Final = 100
_JSON: Final = {b"content-type": b"application/json"}
T = TypeVar("T")


class Root:
    """A server's stream root, with what every request to it carries."""

    def __init__(self, url: str, headers: HeadersLike | None, terms: Terms) -> None:
        self.url = url.rstrip("/")
        self.headers = headers
        self.terms = terms

    def control(self, path: str) -> Endpoint:
        """Locate a control path."""
        return Endpoint(f"{self.url}/__ds/{path}", self.headers)

    def subscription(self, id: str, action: str = "") -> Endpoint:
        """Locate a subscription, or one of its actions."""
        if not id:
            raise ValueError("a subscription's id must not be empty")
        return self.control(f"subscriptions/{quote(id, safe='')}{action}")

    def stream(self, path: str) -> Endpoint:
        """Locate a stream by its path below the root."""
        return Endpoint(f"{self.url}/{quote(path.lstrip('/'))}", self.headers)


# -- Configuration -------------------------------------------------------------------------------


def config(
    pattern: str | None, streams: Iterable[str], lease_ttl_ms: int | None, description: str | None
) -> dict[str, Any]:
    """Collect what both types of subscriptions have."""
    if isinstance(streams, str):
        raise TypeError("streams is a list of paths")
    given = {
        "pattern": pattern,
        "streams": list(streams) or None,
        "lease_ttl_ms": lease_ttl_ms,
        "description": description,
    }
    return {name: value for name, value in given.items() if value is not None}


def create(root: Root, id: str, config: Mapping[str, Any]) -> Plan[SubscriptionInfo]:
    """Create a subscription, or confirm that it is there with the same configuration."""
    endpoint = root.subscription(id)
    answer = yield from _send(root, endpoint, b"PUT", config)
    return _decode(endpoint, answer, SubscriptionInfo)


def read(root: Root, id: str) -> Plan[SubscriptionInfo]:
    """Read a subscription."""
    endpoint = root.subscription(id)
    answer = yield from _send(root, endpoint, b"GET")
    return _decode(endpoint, answer, SubscriptionInfo)


def delete(root: Root, id: str) -> Plan[None]:
    """Delete a subscription; one that is not there is not an error."""
    try:
        yield from _send(root, root.subscription(id), b"DELETE")
    except SubscriptionNotFoundError:
        return


def page(root: Root, cursor: str | None, limit: int = PAGE) -> Plan[SubscriptionPage]:
    """List some subscriptions. An extension that not every server has."""
    params = (("limit", str(limit)), *((("cursor", cursor),) if cursor else ()))
    endpoint = root.control("subscriptions")
    ask = Ask(b"GET", params=params, timeout_s=root.terms.timeout_s)
    answer = yield from exchange(endpoint, ask, root.terms, safe=True)
    if answer.status == 200 and b'"subscriptions"' in answer.body:
        return _decode(endpoint, answer, SubscriptionPage)
    if answer.status in (400, 401, 403):
        raise _refusal(root, endpoint, ask, answer)
    raise errors.NotSupportedError(
        "This server cannot list subscriptions", url=endpoint.url, status=answer.status
    )


def add_streams(root: Root, id: str, streams: Iterable[str]) -> Plan[None]:
    """Link streams explicitly; those that are linked already stay."""
    yield from _send(root, root.subscription(id, "/streams"), b"POST", {"streams": list(streams)})


def remove_streams(root: Root, id: str, streams: Iterable[str]) -> Plan[None]:
    """Remove explicit links; a glob that matches still does."""
    for stream in streams:
        yield from _send(root, root.subscription(id, f"/streams/{quote(stream, safe='')}"), b"DELETE")


def retry(root: Root, id: str) -> Plan[None]:
    """Attempt a delivery at once that waits for its time. An extension that not every server has."""
    yield from _send(root, root.subscription(id, "/retry"), b"POST", {})


def rotate_keys(root: Root) -> Plan[RotatedKeys]:
    """Sign webhooks with a new key. An extension that not every server has; never repeated by itself."""
    endpoint = root.control("keys/rotate")
    answer = yield from _send(root, endpoint, b"POST", {}, safe=False)
    return _decode(endpoint, answer, RotatedKeys)


# -- Claims --------------------------------------------------------------------------------------


def claim(root: Root, id: str, worker: str) -> Plan[Claim | None]:
    """Ask for the lease; None when there is nothing to do, or another worker has it.

    Not repeated by itself: a claim whose answer was lost is one that its own worker cannot use.
    """
    endpoint = root.subscription(id, "/claim")
    try:
        answer = yield from _send(root, endpoint, b"POST", {"worker": worker}, safe=False)
    except FencedError as refused:
        if refused.code in ("NO_PENDING_WORK", "ALREADY_CLAIMED"):
            return None
        raise
    return _decode(endpoint, answer, Claim)


def acknowledge(
    root: Root, id: str, claim: Claim, acks: Mapping[str, str], *, done: bool
) -> Plan[Acknowledged]:
    """Move the cursors of a claim, which extends its lease; with `done`, end it."""
    endpoint = root.subscription(id, "/ack")
    body = _settling(claim, acks) | ({"done": True} if done else {})
    answer = yield from _send(root, endpoint, b"POST", body, token=claim.token)
    return _decode(endpoint, answer, Acknowledged)


def release(root: Root, id: str, claim: Claim) -> Plan[None]:
    """Give up a claim. One that is another's already is not an error."""
    body = _settling(claim, {})
    try:
        yield from _send(root, root.subscription(id, "/release"), b"POST", body, token=claim.token)
    except FencedError:
        return


def call_back(wake: Wake, acks: Mapping[str, str], terms: Terms, *, done: bool) -> Plan[Acknowledged]:
    """Acknowledge a webhook after it was answered."""
    endpoint = Endpoint(wake.callback_url)
    root = Root(wake.callback_url, None, terms)
    body = _settling(wake, acks) | {"done": done}
    answer = yield from _send(root, endpoint, b"POST", body, token=wake.callback_token)
    return _decode(endpoint, answer, Acknowledged)


def _settling(held: Claim | Wake, acks: Mapping[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {"wake_id": held.wake_id, "generation": held.generation}
    if acks:
        body["acks"] = [{"stream": stream, "offset": offset} for stream, offset in acks.items()]
    return body


# -- Sending, and refusals -----------------------------------------------------------------------


def _send(
    root: Root,
    endpoint: Endpoint,
    method: bytes,
    body: Mapping[str, Any] | None = None,
    *,
    token: str | None = None,
    safe: bool = True,
) -> Plan[Answer]:
    fields = dict(_JSON) if body is not None else {}
    if token is not None:
        fields[b"authorization"] = b"Bearer " + token.encode("latin-1")
    content = msgspec.json.encode(body) if body is not None else b""
    ask = Ask(method, fields, body=content, timeout_s=root.terms.timeout_s)
    answer = yield from exchange(endpoint, ask, root.terms, safe=safe)
    if answer.status not in (200, 201, 204):
        raise _refusal(root, endpoint, ask, answer)
    return answer


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""
    current_holder: str | None = None
    generation: int | None = None


class _Refusal(msgspec.Struct):
    error: _Error


# Made here: a type that several threads decode for the first time at once ends the process (msgspec 0.22).
_refused = msgspec.json.Decoder(_Refusal)
_DECODERS: Final[dict[type, msgspec.json.Decoder[Any]]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (SubscriptionInfo, SubscriptionPage, RotatedKeys, Claim, Acknowledged)
}


def _refusal(root: Root, endpoint: Endpoint, ask: Ask, answer: Answer) -> errors.MillstreamError:
    try:
        found = _refused.decode(answer.body).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        if answer.status in (404, 405, 501):
            return errors.NotSupportedError(
                "This server has no such subscription route", url=endpoint.url, status=answer.status
            )
        return refusal(endpoint, ask, answer, root.terms)
    code = found.code or None
    because = f" ({found.message.rstrip('.')})" if found.message else f" ({found.code})"
    match answer.status:
        case 400:
            return errors.BadRequestError(
                f"The server refused the request{because}", url=endpoint.url, code=code
            )
        case 401 | 403:
            return errors.UnauthorizedError(
                f"Not allowed{because}", url=endpoint.url, status=answer.status, code=code
            )
        case 404:
            return SubscriptionNotFoundError("There is no such subscription", url=endpoint.url, code=code)
        case 409 if ask.method == b"PUT":
            return SubscriptionExistsError(
                f"The id is taken by another subscription{because}", url=endpoint.url, code=code
            )
        case 409:
            return FencedError(
                f"Not this worker's turn{because}",
                url=endpoint.url,
                code=code,
                current_holder=found.current_holder,
            )
    return refusal(endpoint, ask, answer, root.terms)


def _decode(endpoint: Endpoint, answer: Answer, kind: type[T]) -> T:
    decoder: msgspec.json.Decoder[T] = _DECODERS[kind]
    try:
        return decoder.decode(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise errors.ParseError(f"The answer cannot be parsed ({error})", url=endpoint.url) from None
