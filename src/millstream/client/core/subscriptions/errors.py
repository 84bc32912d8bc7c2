"""The exceptions of subscriptions, derived from `MillstreamError` like all others.

MillstreamError
|-- SubscriptionNotFoundError 404   there is no such subscription
|-- SubscriptionExistsError   409   the id is taken by another configuration
|-- FencedError               409   the claim is another worker's, or there is none; `current_holder`
`-- WebhookError              401   a delivery that is not authentic, or not of now: see its `code`
"""

from millstream.client.core.errors import MillstreamError


class SubscriptionNotFoundError(MillstreamError):
    """There is no subscription of this id.

    >>> try:
    ...     Subscriptions(server).read("nobody")
    ... except SubscriptionNotFoundError as error:
    ...     error.code
    'SUBSCRIPTION_NOT_FOUND'
    """

    default_code, default_status = "SUBSCRIPTION_NOT_FOUND", 404


class SubscriptionExistsError(MillstreamError):
    """The id is taken by a subscription with another configuration.

    >>> try:
    ...     _ = subscriptions.create_pull("orders", "wake/orders", pattern="elsewhere/**")
    ... except SubscriptionExistsError as error:
    ...     error.status
    409
    """

    default_code, default_status = "SUBSCRIPTION_ALREADY_EXISTS", 409


class FencedError(MillstreamError):
    """What was claimed is not this worker's any more; `current_holder` is who has it, where that is known.

    >>> raise FencedError("Not this worker's turn", current_holder="worker-2")
    Traceback (most recent call last):
    millstream.client.core.subscriptions.errors.FencedError: Not this worker's turn
    """

    default_code, default_status = "FENCED", 409

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        status: int | None = None,
        code: str | None = None,
        current_holder: str | None = None,
    ) -> None:
        super().__init__(message, url=url, status=status, code=code)
        self.current_holder = current_holder


class WebhookError(MillstreamError):
    """A delivery that a receiver must not believe; answer it with `status`, which is 401.

    `code` is MISSING_SIGNATURE, INVALID_SIGNATURE_HEADER, UNKNOWN_KEY, WRONG_SIGNATURE, OUTSIDE_WINDOW,
    INVALID_BODY or OTHER_SUBSCRIPTION.

    >>> try:
    ...     verify_webhook(b"{}", {}, jwks_url=f"{server}/__ds/jwks.json")
    ... except WebhookError as error:
    ...     error.code, error.status
    ('MISSING_SIGNATURE', 401)
    """

    default_code, default_status = "WRONG_SIGNATURE", 401
