"""The receiver of webhooks: is this delivery the server's, and of now?

A server's public keys are fetched once and kept by their kid. They are fetched again when they are old, or
when a delivery names a kid that is not among them: but not more often than every ten seconds, because anybody
can invent kids.

PROTOCOL.md 7.1, 12.10; rule S2.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from millstream.client.core import errors
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange
from millstream.client.core.models import HeadersLike
from millstream.client.core.subscriptions.errors import WebhookError
from millstream.client.core.subscriptions.models import Wake
from millstream.protocol import signatures
from millstream.protocol.errors import MalformedError

MIN_FETCH_S: Final = 10.0
_HEADER: Final = signatures.HEADER.decode()
_wake = msgspec.json.Decoder(Wake)


class Verifier:
    """The keys of one server, and what its deliveries must be."""

    def __init__(
        self,
        jwks_url: str,
        *,
        subscriptions: Collection[str] | None,
        window_s: float,
        headers: HeadersLike | None,
        terms: Terms,
    ) -> None:
        self._endpoint = Endpoint(jwks_url, headers)
        self._subscriptions = subscriptions
        self._window_s = window_s
        self._terms = terms
        self._keys: dict[str, bytes] = {}
        self._fetched_s: float | None = None

    def verify(self, body: bytes, headers: Mapping[str, str]) -> Plan[Wake]:
        """Check a delivery, fetching keys if that is necessary, and read it."""
        given = next((value for name, value in headers.items() if name.lower() == _HEADER), None)
        if given is None:
            raise WebhookError("There is no Webhook-Signature", code="MISSING_SIGNATURE")
        try:
            signature = signatures.parse_signature(given)
        except MalformedError as error:
            raise WebhookError(error.detail.rstrip("."), code=error.code) from None
        if self._must_fetch(signature.kid):
            yield from self._fetch()
        now_s = self._terms.chance.wall_clock()
        fault = signatures.find_fault(
            signature, body, now_s=now_s, keys=self._keys, verify=_is_signed, window_s=self._window_s
        )
        if fault is not None:
            raise WebhookError(fault.value.rstrip("."), code=fault.name)
        return self._read(body)

    def _must_fetch(self, kid: str) -> bool:
        if self._fetched_s is None:
            return True
        age_s = self._terms.chance.clock() - self._fetched_s
        return age_s > signatures.JWKS_MAX_AGE_S or (kid not in self._keys and age_s > MIN_FETCH_S)

    def _fetch(self) -> Plan[None]:
        ask = Ask(b"GET", timeout_s=self._terms.timeout_s)
        answer = yield from exchange(self._endpoint, ask, self._terms, safe=True)
        url = self._endpoint.url
        if answer.status != 200:
            raise errors.UnexpectedStatusError(
                f"The server's keys cannot be fetched ({answer.status})", url=url, status=answer.status
            )
        try:
            self._keys = signatures.parse_jwk_set(answer.body)
        except MalformedError as error:
            raise errors.ParseError(error.detail.rstrip("."), url=url) from None
        self._fetched_s = self._terms.chance.clock()

    def _read(self, body: bytes) -> Wake:
        try:
            wake = _wake.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise WebhookError("The body is not that of a webhook", code="INVALID_BODY") from None
        if self._subscriptions is not None and wake.subscription_id not in self._subscriptions:
            raise WebhookError(
                f"Not a subscription of this receiver ({wake.subscription_id})", code="OTHER_SUBSCRIPTION"
            )
        return wake


def _is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    # Loaded here: it takes tens of milliseconds, and only receivers need it.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True
