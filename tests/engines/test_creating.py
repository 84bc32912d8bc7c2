"""Creating: rules C1, C4 to C6."""

import pytest

from engines.driving import JSON, TEXT, Engine, created
from millstream.protocol.content import Kind
from millstream.protocol.errors import MalformedError
from millstream.protocol.expiry import Lifetime
from millstream.protocol.lifecycle import ConfigMismatch, Delete, Exists
from millstream.protocol.streams import Append, NotFound


def test_a_new_stream_is_as_it_was_asked_for(engine: Engine) -> None:
    """C1, C4, C6."""
    stream = created(engine.create("/s", b"hello", content_type=b"Text/Plain; a=b", closed=True))
    assert (stream.name, stream.content_type, stream.kind) == ("/s", b"Text/Plain; a=b", Kind.TEXT)
    assert (stream.tail, stream.closed, stream.created_ms) == (5, True, engine.now_ms)
    assert engine.content("/s") == b"hello"
    found = engine.stream("/s")
    assert (found.id, found.tail, found.closed) == (stream.id, 5, True)


def test_a_stream_is_empty_by_default(engine: Engine) -> None:
    """C4, C6."""
    assert created(engine.create("/s", content_type=None)).content_type == b"application/octet-stream"
    created(engine.create("/json", b"[]", content_type=JSON))
    assert engine.content("/s") == engine.content("/json") == b""
    assert engine.stream("/json").tail == 0


def test_creating_twice_is_creating_once(engine: Engine) -> None:
    """C1: the first body stays."""
    first = created(engine.create("/s", b"one"))
    again = engine.create("/s", b"two", content_type=b"TEXT/plain")
    assert isinstance(again, Exists)
    assert (again.stream.id, again.stream.tail) == (first.id, 3)
    assert engine.content("/s") == b"one"


@pytest.mark.parametrize(
    ("wish", "what"),
    [
        ({"content_type": b"text/html"}, "content type"),
        ({"closed": True}, "closed flag"),
        ({"lifetime": Lifetime(ttl_s=5)}, "TTL or expiry"),
    ],
)
def test_another_configuration_is_refused_and_changes_nothing(
    engine: Engine, wish: dict[str, bytes], what: str
) -> None:
    """C1."""
    engine.create("/s", b"one")
    assert engine.create("/s", b"two", **wish) == ConfigMismatch("/s", what)
    assert engine.content("/s") == b"one"


def test_a_body_that_is_not_json_creates_nothing(engine: Engine) -> None:
    """A3, C4."""
    with pytest.raises(MalformedError):
        engine.create("/s", b"{", content_type=JSON)
    assert engine.head("/s") == NotFound("/s")
    assert engine.names() == []


def test_names_that_differ_are_different_streams(engine: Engine) -> None:
    """P3."""
    names = ["/a", "/A", "/a/", "//a", "/ä", "/a\u0308", "/a b", "/😀"]
    for number, name in enumerate(names):
        created(engine.create(name, b"%d" % number))
    assert [engine.content(name) for name in names] == [b"%d" % number for number in range(len(names))]


def test_a_deleted_name_is_free_for_another_stream(engine: Engine) -> None:
    """C1: with another identity, so that no tag and no waiting reader confuses the two."""
    old = created(engine.create("/s", b"old", closed=True))
    assert isinstance(engine.delete("/s"), Delete)
    new = created(engine.create("/s", b"new!", content_type=b"image/png"))
    assert new.id != old.id
    assert (new.tail, new.closed) == (4, False)
    assert engine.chunk("/s").stream_id == new.id
    assert isinstance(engine.append("/s", b"?", content_type=b"image/png"), Append)
    assert engine.content("/s") == b"new!?"


def test_every_method_says_when_there_is_no_stream(engine: Engine) -> None:
    """A2."""
    nothing = NotFound("/s")
    assert engine.head("/s") == engine.read("/s") == engine.delete("/s") == nothing
    assert engine.append("/s", b"x", content_type=TEXT) == nothing
    assert engine.changes == []
