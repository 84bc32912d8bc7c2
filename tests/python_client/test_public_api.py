"""The public names, pinned: a change here is a change for everybody who uses them."""

import inspect
from importlib.metadata import version
from typing import Any

import pytest

import millstream
import millstream.aio
import millstream.aio.subscriptions
import millstream.subscriptions

ERRORS = {
    "AlreadyConsumedError", "BadRequestError", "ContentTypeMismatchError",
    "DuplicateAppendError", "MillstreamError",
    "NotSupportedError", "OffsetConflictError", "ParseError", "PartConflictError", "PartMissingError",
    "PayloadTooLargeError", "ProducerStoppedError", "RateLimitedError", "SequenceConflictError",
    "SequenceGapError", "StaleEpochError", "StreamClosedError", "StreamExistsError", "StreamGoneError",
    "StreamNotFoundError", "TransportError", "UnauthorizedError", "UnexpectedStatusError",
}  # fmt: skip
NAMES = ERRORS | {
    "AppendResult", "ByteChunk", "CloseResult", "DurableStream", "Following", "HeadResult", "HttpClient",
    "IdempotentProducer", "JsonBatch", "Multipart", "ProducerStamp", "Retry", "StreamBatch", "StreamResponse",
    "Subscription", "TextChunk", "TrimResult", "delete_all", "follow_many", "last",
    "since", "stream",
}  # fmt: skip
MEMBERS = {
    "DurableStream": {
        "append", "append_all", "close", "commit_parts", "configure", "connect", "create", "delete",
        "drop_part", "fork", "head", "multipart", "stage_part", "stream", "trim", "update",
    },
    "Multipart": {"abort", "commit", "write", "write_all"},
    "StreamResponse": {
        "cancel", "content_type", "cursor", "headers", "incarnation", "iter_byte_chunks", "iter_bytes",
        "iter_json",
        "iter_json_batches", "iter_text", "iter_text_chunks", "live", "offset", "read_bytes", "read_json",
        "read_text", "start_offset", "status", "stream_closed", "subscribe_bytes", "subscribe_json",
        "subscribe_text", "up_to_date",
    },
    "IdempotentProducer": {
        "append", "close", "detach", "duplicate_count", "epoch", "flush", "in_flight_count", "last_offset",
        "next_seq", "pending_count", "restart",
    },
    "Subscription": {"cancel", "done", "wait"},
    "Following": {"cancel", "globs_from", "positions"},
}  # fmt: skip
FIELDS = {
    "CloseResult": ("final_offset",),
    "AppendResult": ("next_offset", "stream_closed", "duplicate"),
    "HeadResult": (
        "content_type", "offset", "etag", "cache_control", "ttl_seconds", "expires_at",
        "stream_closed", "exists", "extensions", "retain_bytes", "retain_seconds", "earliest_offset",
        "first_time", "last_time", "start_offset", "incarnation", "attributes",
    ),
    "TrimResult": ("earliest_offset", "next_offset"),
    "JsonBatch": ("items", "offset", "up_to_date", "cursor", "stream_closed", "last_time"),
    "ByteChunk": ("data", "offset", "up_to_date", "cursor", "stream_closed", "last_time"),
    "TextChunk": ("data", "offset", "up_to_date", "cursor", "stream_closed", "last_time"),
    "Retry": ("initial_delay_s", "max_delay_s", "max_total_s", "max_attempts", "doubtful_appends"),
    "ProducerStamp": ("id", "epoch", "seq"),
    "StreamBatch": ("data", "offset", "up_to_date", "stream_closed", "stream_deleted", "content_type"),
}  # fmt: skip
OPTIONS = {
    "stream": (
        "url", "offset", "live", "headers", "params", "cursor", "timeout", "poll_timeout", "retry",
        "on_error", "client",
    ),
    "follow_many": (
        "url", "streams", "globs", "from_beginning", "globs_from", "headers", "timeout", "retry", "client",
    ),
    "delete_all": ("url", "prefix", "glob", "on_progress", "headers", "timeout", "retry", "client"),
    "IdempotentProducer": (
        "stream", "producer_id", "epoch", "resume", "repeat", "auto_claim", "max_batch_bytes", "linger_ms",
        "max_in_flight", "on_error", "retry",
    ),
    "DurableStream.create": (
        "url", "content_type", "ttl_seconds", "expires_at", "retain_bytes", "retain_seconds",
        "attributes", "body", "closed", "forked_from", "fork_offset", "fork_sub_offset", "headers", "params",
        "timeout", "retry", "client",
    ),
    "DurableStream.close": ("self", "body", "content_type", "expected_offset"),
    "DurableStream.append": ("self", "data", "seq", "producer", "expected_offset"),
    "DurableStream.append_all": ("self", "messages", "expected_offset"),
    "DurableStream.update": ("self", "decide", "offset"),
    "DurableStream.stream": ("self", "offset", "live", "cursor", "poll_timeout", "on_error"),
    "DurableStream.configure": (
        "self", "ttl_seconds", "expires_at", "retain_bytes", "retain_seconds", "attributes",
    ),
    "DurableStream.trim": ("self", "before"),
    "DurableStream.fork": ("self", "target", "offset", "sub_offset", "ttl_seconds", "expires_at"),
    "DurableStream.multipart": ("self", "part_bytes"),
    "DurableStream.stage_part": ("self", "id", "data"),
    "DurableStream.commit_parts": ("self", "ids", "seq", "producer", "close", "expected_offset"),
    "DurableStream.drop_part": ("self", "id"),
    "Multipart.commit": ("self", "seq", "producer", "close", "expected_offset"),
    "IdempotentProducer.close": ("self", "final"),
}  # fmt: skip

SHELLS: list[Any] = [millstream, millstream.aio]


def test_the_version_is_the_packages() -> None:
    assert millstream.__version__ == version("millstream")
    with pytest.raises(AttributeError, match="no attribute '__verison__'"):
        _ = millstream.__verison__


def members(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_both_shells_have_these_names_and_no_others() -> None:
    for shell in SHELLS:
        assert set(shell.__all__) == NAMES
        assert all(hasattr(shell, name) for name in NAMES)


def test_classes_have_these_members() -> None:
    for shell in SHELLS:
        for name, expected in MEMBERS.items():
            assert members(getattr(shell, name)) == expected, (shell.__name__, name)


def test_results_have_these_fields() -> None:
    for name, expected in FIELDS.items():
        assert getattr(millstream, name).__struct_fields__ == expected
        assert getattr(millstream, name) is getattr(millstream.aio, name)


def test_functions_take_these_options() -> None:
    for shell in SHELLS:
        for path, expected in OPTIONS.items():
            target = shell
            for part in path.split("."):
                target = getattr(target, part)
            assert tuple(inspect.signature(target).parameters) == expected, (shell.__name__, path)


def test_every_public_name_says_what_it_is() -> None:
    for shell in SHELLS:
        for name in NAMES:
            assert getattr(shell, name).__doc__, name
        for name, expected in MEMBERS.items():
            for member in expected:
                assert inspect.getattr_static(getattr(shell, name), member).__doc__, (name, member)


# -- millstream.subscriptions --------------------------------------------------------------------

SUBSCRIBING: list[Any] = [millstream.subscriptions, millstream.aio.subscriptions]
SUBSCRIPTION_NAMES = {
    "Acknowledged", "FencedError", "PullWorker", "RotatedKeys", "Signing", "StreamLink",
    "SubscriptionExistsError",
    "SubscriptionInfo", "SubscriptionNotFoundError", "Subscriptions", "Wake", "Webhook", "WebhookError",
    "WebhookVerifier", "Work", "call_back", "verify_webhook",
}  # fmt: skip
SUBSCRIPTION_MEMBERS = {
    "PullWorker": {"run", "run_pending", "stop", "worker"},
    "Subscriptions": {
        "add_streams", "create_pull", "create_webhook", "delete", "list", "read", "remove_streams", "retry",
        "rotate_keys",
    },
    "Wake": {
        "callback_token", "callback_url", "generation", "pending", "streams", "subscription_id", "tails",
        "wake_id",
    },
    "WebhookVerifier": {"verify"},
    "Work": {"content_type", "data", "is_lost", "items", "lease", "offset", "path", "text"},
}  # fmt: skip
SUBSCRIPTION_OPTIONS = {
    "PullWorker": (
        "url", "subscription", "handle", "worker", "on_error", "headers", "timeout", "retry", "client",
    ),
    "Subscriptions": ("url", "headers", "timeout", "retry", "client"),
    "Subscriptions.create_pull": (
        "self", "id", "wake_stream", "pattern", "streams", "lease_ttl_ms", "description",
        "create_wake_stream",
    ),
    "Subscriptions.create_webhook": (
        "self", "id", "url", "pattern", "streams", "lease_ttl_ms", "description",
    ),
    "WebhookVerifier": (
        "jwks_url", "subscriptions", "window_s", "headers", "timeout", "retry", "client",
    ),
    "call_back": ("wake", "acks", "done", "timeout", "retry", "client"),
    "verify_webhook": ("body", "headers", "jwks_url"),
}  # fmt: skip


def test_subscriptions_have_these_names_members_and_options() -> None:
    for module in SUBSCRIBING:
        assert set(module.__all__) == SUBSCRIPTION_NAMES
        assert all(getattr(module, name).__doc__ for name in SUBSCRIPTION_NAMES)
        for name, expected in SUBSCRIPTION_MEMBERS.items():
            assert members(getattr(module, name)) == expected, (module.__name__, name)
        for path, options in SUBSCRIPTION_OPTIONS.items():
            target = module
            for part in path.split("."):
                target = getattr(target, part)
            assert tuple(inspect.signature(target).parameters) == options, (module.__name__, path)
