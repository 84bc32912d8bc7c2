"""Content types: rules C1, C6, A10, X10."""

import pytest

from millstream.protocol.content import Kind, kind_of, media_type, same_type


@pytest.mark.parametrize(
    ("content_type", "essence", "kind"),
    [
        (b"application/json", b"application/json", Kind.JSON),
        (b"Application/JSON; charset=utf-8", b"application/json", Kind.JSON),
        (b"application/json ;x=1", b"application/json", Kind.JSON),
        (b"application/jsonl", b"application/jsonl", Kind.BINARY),
        (b"application/vnd.api+json", b"application/vnd.api+json", Kind.JSON),
        (b"Application/CloudEvents+JSON; charset=utf-8", b"application/cloudevents+json", Kind.JSON),
        (b"text/example+json", b"text/example+json", Kind.JSON),
        (b"application/json+xml", b"application/json+xml", Kind.BINARY),
        (b"text/plain", b"text/plain", Kind.TEXT),
        (b"TEXT/HTML; charset=utf-8", b"text/html", Kind.TEXT),
        (b"text", b"text", Kind.BINARY),
        (b"application/octet-stream", b"application/octet-stream", Kind.BINARY),
        (b"", b"", Kind.BINARY),
    ],
)
def test_a_type_tells_how_its_stream_is_framed(content_type: bytes, essence: bytes, kind: Kind) -> None:
    """A10, X10."""
    assert media_type(content_type) == essence
    assert kind_of(content_type) is kind


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b"text/plain", b"text/plain", True),
        (b"text/plain", b"Text/PLAIN", True),
        (b"application/json", b"application/json; charset=utf-8", True),
        (b"text/plain; charset=utf-8", b"text/plain;charset=latin-1", True),
        (b"text/plain", b"text/html", False),
        (b"application/json", b"application/jsonl", False),
        (b"text/plain", b"", False),
    ],
)
def test_types_match_by_media_type_in_any_case(one: bytes, other: bytes, same: bool) -> None:
    """C1."""
    assert same_type(one, other) is same
    assert same_type(other, one) is same
