"""Subscriptions: streams that wake workers. `millstream.aio.subscriptions` has the same names, awaited.

`Subscriptions` creates and reads them, `PullWorker` works for one, and `verify_webhook` is for receivers of
webhooks.
"""

from millstream.client.core.subscriptions.errors import (
    FencedError,
    SubscriptionExistsError,
    SubscriptionNotFoundError,
    WebhookError,
)
from millstream.client.core.subscriptions.models import (
    Acknowledged,
    RotatedKeys,
    Signing,
    StreamLink,
    SubscriptionInfo,
    Wake,
    Webhook,
    Work,
)
from millstream.client.sync.subscriptions import Subscriptions, call_back
from millstream.client.sync.webhooks import WebhookVerifier, verify_webhook
from millstream.client.sync.workers import PullWorker

__all__ = [
    "Acknowledged",
    "FencedError",
    "PullWorker",
    "RotatedKeys",
    "Signing",
    "StreamLink",
    "SubscriptionExistsError",
    "SubscriptionInfo",
    "SubscriptionNotFoundError",
    "Subscriptions",
    "Wake",
    "Webhook",
    "WebhookError",
    "WebhookVerifier",
    "Work",
    "call_back",
    "verify_webhook",
]
