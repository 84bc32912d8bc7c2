"""Subscriptions: streams that wake workers. The names of `millstream.subscriptions`, awaited."""

from millstream.client.aio.subscriptions import Subscriptions, call_back
from millstream.client.aio.webhooks import WebhookVerifier, verify_webhook
from millstream.client.aio.workers import PullWorker
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
