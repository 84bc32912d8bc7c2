"""DELETE (protocol 5.4)."""

from __future__ import annotations

from millstream_conformance.server.checks import rule, stricter
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import stamp


@rule("F4", "A2")
def test_a_deleted_stream_is_gone(server: Server) -> None:
    """204, then every operation is 404."""
    stream = server.stream("text/plain", b"x")
    deleted = stream.delete()
    assert deleted.status == 204
    assert deleted.body == b""
    assert stream.get().status == 404
    assert stream.head().status == 404
    assert stream.append(b"y").status == 404
    assert stream.close().status == 404
    assert stream.delete().status == 404
    assert stream.get("-1", live="long-poll").status == 404


@rule("F4")
@stricter("section 4 says that a deleted path SHOULD NOT be used again")
def test_a_new_stream_at_the_path_inherits_nothing(server: Server) -> None:
    """Content, closure, producers and sequences of the old stream are forgotten."""
    stream = server.stream("text/plain", b"old")
    stream.append(b"x", {**stamp("p", 7, 0), "Stream-Seq": "z"})
    stream.close()
    stream.delete()
    again = server.stream("application/json", path=stream.path)
    assert elements(again.content()) == []
    assert not again.head().closed
    assert again.append(b"1", {**stamp("p", 0, 0), "Stream-Seq": "a"}).status == 200
    assert elements(again.content()) == ["1"]
