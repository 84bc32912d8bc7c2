"""Receiving webhooks with blocking calls. The checks are in core/subscriptions; the twin of aio/webhooks."""

from collections import OrderedDict
from collections.abc import Collection, Mapping

from millstream.client.core.exchanges import Terms
from millstream.client.core.models import HeadersLike
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.core.subscriptions.models import Wake
from millstream.client.core.subscriptions.verifying import Verifier
from millstream.client.core.transport import Transport
from millstream.client.http.sync_sockets import shared_client
from millstream.client.sync.driving import run
from millstream.client.sync.streams import DEFAULT_TIMEOUT_S
from millstream.protocol.signatures import REPLAY_WINDOW_S

_MAX_SERVERS = 64
_shared: OrderedDict[str, "WebhookVerifier"] = OrderedDict()


class WebhookVerifier:
    """Checks the webhooks of one server, whose keys are at `jwks_url`; keep it, because it keeps the keys.

    With `subscriptions`, webhooks of other ones are refused. `window_s` is how far the time of a signature
    may be from this machine's.

    >>> verifier = WebhookVerifier(f"{server}/__ds/jwks.json", subscriptions={"orders"})
    >>> try:
    ...     verifier.verify(b"{}", {"Webhook-Signature": "t=1,kid=ds_x,ed25519=" + "A" * 86})
    ... except WebhookError as error:
    ...     print(error.code)
    UNKNOWN_KEY
    """

    def __init__(
        self,
        jwks_url: str,
        *,
        subscriptions: Collection[str] | None = None,
        window_s: float = REPLAY_WINDOW_S,
        headers: HeadersLike | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retry: Retry | None = DEFAULT,
        client: Transport | None = None,
    ) -> None:
        terms = Terms(retry, timeout)
        self._verifier = Verifier(
            jwks_url, subscriptions=subscriptions, window_s=window_s, headers=headers, terms=terms
        )
        self._transport = client or shared_client()

    def verify(self, body: bytes, headers: Mapping[str, str]) -> Wake:
        """Return what a request says, by its exact body and headers; `WebhookError` if it is forged."""
        return run(self._transport, self._verifier.verify(body, headers))


def verify_webhook(body: bytes, headers: Mapping[str, str], *, jwks_url: str) -> Wake:
    """Check a webhook with a `WebhookVerifier` that is shared by all calls with this `jwks_url`.

    >>> try:
    ...     verify_webhook(b"{}", {"Webhook-Signature": "forged"}, jwks_url=f"{server}/__ds/jwks.json")
    ... except WebhookError as error:
    ...     print(error.code)
    INVALID_SIGNATURE_HEADER
    """
    verifier = _shared.get(jwks_url)
    if verifier is None:
        verifier = _shared[jwks_url] = WebhookVerifier(jwks_url)
        if len(_shared) > _MAX_SERVERS:
            _shared.popitem(last=False)
    return verifier.verify(body, headers)
