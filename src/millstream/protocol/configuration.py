"""Configuration: what a PATCH changes of a stream that exists.

Each header changes one thing, `none` removes it, and what has no header stays:

        Stream-TTL, Stream-Expires-At                  how long it lives; setting one removes the other
        Stream-Retain-Bytes, Stream-Retain-Seconds     what it keeps
        Stream-Attributes                              what is noted about it, merged by name (`attributes`)

All of it is one change, decided and recorded as a whole. Setting a TTL begins it anew; a PATCH without one
renews nothing. Limits that are set are applied as retention always is, soon and in whole appends. When
bytes arrived is not known of those that came while there was no limit of seconds: all of them count as old
as the newest, so nothing goes too early.

A closed stream can be changed. Forks keep what they have; those made later inherit what is set then.

A PUT that creates a stream again still succeeds with what it asked for at first, and also with what is set
now (`lifecycle.plan_existing`). So neither a program that creates its streams whenever it starts, nor one
that was changed together with its streams, is refused because somebody has used PATCH.

Rules X10, X4, C1, C3, G8.
"""

from collections.abc import Mapping

import msgspec

from millstream.protocol import attributes, headers
from millstream.protocol.attributes import Changes, parse_attributes
from millstream.protocol.errors import MalformedError
from millstream.protocol.expiry import FOREVER, Lifetime, parse_lifetime
from millstream.protocol.retention import Mark, Retention, parse_retention
from millstream.protocol.streams import Stream

_NONE = b"none"


class ConfigureRequest(msgspec.Struct, frozen=True):
    """A PATCH: what is set, and what is removed."""

    lifetime: Lifetime | None = None
    removes_ttl: bool = False
    removes_expiry: bool = False
    retention: Retention = Retention()
    removes_retain_bytes: bool = False
    removes_retain_seconds: bool = False
    attributes: Changes = {}


class Configuration(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All that a PATCH may change, as it is after it; also what a log records of it."""

    lifetime: Lifetime
    deadline_ms: int | None
    retention: Retention
    attributes: bytes
    is_lifetime_changed: bool
    is_retention_changed: bool


class Configured(msgspec.Struct, frozen=True):
    """The stream as it is configured now; `change` is what that took, if anything."""

    stream: Stream
    change: Configuration | None = None


def parse_configure(fields: Mapping[bytes, bytes], body: bytes) -> ConfigureRequest:
    """Read a PATCH."""
    if body:
        raise MalformedError("UNEXPECTED_BODY", "A PATCH says what to change in headers, and has no body.")
    ttl, expires_at = fields.get(headers.STREAM_TTL), fields.get(headers.STREAM_EXPIRES_AT)
    size, seconds = fields.get(headers.STREAM_RETAIN_BYTES), fields.get(headers.STREAM_RETAIN_SECONDS)
    noted = fields.get(headers.STREAM_ATTRIBUTES)
    return ConfigureRequest(
        parse_lifetime(_value(ttl), _value(expires_at)) or None,
        ttl == _NONE,
        expires_at == _NONE,
        parse_retention(_value(size), _value(seconds)),
        size == _NONE,
        seconds == _NONE,
        parse_attributes(noted) if noted is not None else {},
    )


def _value(text: bytes | None) -> bytes | None:
    return None if text == _NONE else text


def plan_configure(stream: Stream, request: ConfigureRequest, now_ms: int) -> Configured:
    """Decide a PATCH; raise `MalformedError` if the stream's attributes would become too large."""
    before = configuration_of(stream)
    lifetime = request.lifetime or _kept_lifetime(stream.lifetime, request)
    limits = _kept_retention(stream.retention, request)
    is_set = request.lifetime is not None
    after = Configuration(
        lifetime,
        lifetime.deadline_ms(now_ms) if is_set or not lifetime else stream.deadline_ms,
        Retention(
            request.retention.bytes if request.retention.bytes is not None else limits.bytes,
            request.retention.seconds if request.retention.seconds is not None else limits.seconds,
        ),
        attributes.merged(stream.attributes, request.attributes) if request.attributes else stream.attributes,
        before.is_lifetime_changed or is_set or request.removes_ttl or request.removes_expiry,
        before.is_retention_changed
        or bool(request.retention)
        or request.removes_retain_bytes
        or request.removes_retain_seconds,
    )
    changed = msgspec.structs.replace(stream)
    if after == before:
        return Configured(changed)
    apply_configuration(changed, after)
    return Configured(changed, after)


def _kept_lifetime(lifetime: Lifetime, request: ConfigureRequest) -> Lifetime:
    is_removed = request.removes_ttl if lifetime.is_sliding else request.removes_expiry
    return FOREVER if is_removed else lifetime


def _kept_retention(retention: Retention, request: ConfigureRequest) -> Retention:
    return Retention(
        None if request.removes_retain_bytes else retention.bytes,
        None if request.removes_retain_seconds else retention.seconds,
    )


def configuration_of(stream: Stream) -> Configuration:
    """Give the part of a stream that a PATCH may change."""
    return Configuration(
        stream.lifetime,
        stream.deadline_ms,
        stream.retention,
        stream.attributes,
        stream.is_lifetime_changed,
        stream.is_retention_changed,
    )


def apply_configuration(stream: Stream, change: Configuration) -> None:
    """Apply a PATCH to a stream's state."""
    if change.retention.seconds is None:
        stream.marks = ()
    elif stream.retention.seconds is None and stream.start < stream.tail:
        stream.marks = (Mark(stream.last_write_ms, stream.last_write_ms, stream.tail),)
    stream.lifetime, stream.deadline_ms = change.lifetime, change.deadline_ms
    stream.retention, stream.attributes = change.retention, change.attributes
    stream.is_lifetime_changed = change.is_lifetime_changed
    stream.is_retention_changed = change.is_retention_changed
