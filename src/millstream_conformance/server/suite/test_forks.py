"""Forks: streams that share the beginning of another one (protocol 4.2)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from millstream_conformance.server.checks import needs, patient, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import INHERIT, Stream, stamp


def fork_of(
    source: Stream,
    at: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    content_type: object = INHERIT,
    path: str | None = None,
) -> Stream:
    """PUT a fork; `created` holds the answer, whatever it is.

    It declares the source's content type; None leaves the header out. Only the checks of that do, so
    that a server that cannot inherit a content type fails those and not every check of forks.
    """
    fork = Stream(source.server, path or source.server.path("fork"), source.content_type)
    point = {"Stream-Fork-Offset": at} if at is not None else {}
    asked = {"Stream-Forked-From": source.full_path, **point, **(headers or {})}
    fork.created = fork.put(content_type=content_type, headers=asked)
    return fork


@rule("F1")
@needs("forks")
def test_a_fork_begins_with_its_source(server: Server) -> None:
    """Without an offset a fork has all that the source has now, at the same offsets."""
    source = server.stream("text/plain", b"one ")
    middle = source.append(b"two").next_offset
    fork = fork_of(source)
    assert fork.created.status == 201
    assert fork.created.next_offset == middle
    assert fork.content() == b"one two"
    assert fork.content(source.created.next_offset) == b"two"
    assert fork.head().next_offset == source.tail()


@rule("F1")
@needs("forks")
def test_a_fork_at_an_offset_has_the_prefix(server: Server) -> None:
    """The fork offset is exclusive: what comes before it is inherited."""
    source = server.stream("text/plain", b"one ")
    offsets = [
        source.created.next_offset,
        source.append(b"two ").next_offset,
        source.append(b"three").next_offset,
    ]
    contents = [fork_of(source, at).content() for at in offsets]
    assert contents == [b"one ", b"one two ", b"one two three"]
    empty = fork_of(source, server.stream().created.next_offset)
    assert empty.content() == b""


@rule("F1", "F3")
@needs("forks")
def test_source_and_fork_go_their_own_ways(server: Server) -> None:
    """After the fork, appends and closure of one stream do not affect the other."""
    source = server.stream("text/plain", b"shared ")
    fork = fork_of(source)
    appended = fork.append(b"fork")
    assert appended.status == 204
    assert appended.next_offset > fork.created.next_offset
    source.append(b"source")
    source.close()
    assert fork.content() == b"shared fork"
    assert source.content() == b"shared source"
    assert not fork.head().closed
    assert fork.append(b"!").status == 204
    assert fork.content(appended.next_offset) == b"!"


@rule("F1", "G4")
@needs("forks")
def test_a_json_fork_reads_as_one_array(server: Server) -> None:
    """Inherited and own messages come in one array."""
    source = server.stream("application/json", b'[{"n":1},{"n":2}]')
    fork = fork_of(source)
    fork.append(b'{"n":3}')
    source.append(b'{"n":"other"}')
    assert fork.get().json() == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert fork.get(source.created.next_offset).json() == [{"n": 3}]


@rule("F1")
@needs("forks")
def test_a_fork_of_a_fork(server: Server) -> None:
    """A fork of a fork reads through the whole chain."""
    source = server.stream("text/plain", b"a")
    middle = fork_of(source)
    middle.append(b"b")
    last = fork_of(middle)
    last.append(b"c")
    early = fork_of(last, source.created.next_offset)
    assert last.content() == b"abc"
    assert early.content() == b"a"


@rule("F1", "C6")
@needs("forks")
def test_a_fork_has_its_sources_content_type(server: Server) -> None:
    """An omitted content type is inherited, the same one accepted, another one 409."""
    source = server.stream("text/plain; charset=UTF-8", b"x")
    inheriting = fork_of(source, content_type=None)
    assert inheriting.created.status == 201
    assert inheriting.head().content_type == "text/plain; charset=UTF-8"
    assert fork_of(source, content_type="TEXT/plain; charset=UTF-8").created.status == 201
    assert fork_of(source, content_type="application/json").created.status == 409


@rule("F1")
@needs("forks")
def test_a_fork_of_nothing_is_404(server: Server) -> None:
    """The source must exist, and a refused fork leaves no stream."""
    fork = fork_of(server.at(server.path()))
    assert fork.created.status == 404
    assert fork.head().status == 404


@rule("F1", "C1")
@needs("forks")
def test_creating_the_same_fork_again_is_200(server: Server) -> None:
    """Source and offset are configuration: the same again is 200, another is 409."""
    source = server.stream("text/plain", b"one ")
    first = source.created.next_offset
    second = source.append(b"two").next_offset
    fork = fork_of(source, first)
    assert fork_of(source, first, path=fork.path).created.status == 200
    assert fork_of(source, second, path=fork.path).created.status == 409
    other = server.stream("text/plain", b"one ")
    assert fork_of(other, first, path=fork.path).created.status == 409
    assert fork_of(source, first, path=other.path).created.status == 409
    assert fork.content() == b"one "


@rule("F1", "C1")
@needs("forks")
@stricter("section 5.1 compares content type, lifetime and closure; section 4.2 speaks of fork creation only")
def test_a_plain_put_of_a_fork_is_409(server: Server) -> None:
    """A PUT without fork headers does not describe a fork."""
    assert fork_of(server.stream("text/plain", b"one ")).put().status == 409


@rule("F1", "C1")
@needs("forks")
def test_creating_the_same_fork_again_without_a_type_is_200(server: Server) -> None:
    """An inherited content type is the same configuration when it is left out again."""
    source = server.stream("text/plain", b"one ")
    fork = fork_of(source, source.tail(), content_type=None)
    assert fork_of(source, source.tail(), content_type=None, path=fork.path).created.status == 200


@rule("F1")
@needs("forks")
def test_a_closed_stream_can_be_forked_open(server: Server) -> None:
    """A fork of a closed stream is open."""
    source = server.stream("text/plain", b"done", closed=True)
    fork = fork_of(source)
    assert fork.created.status == 201
    assert not fork.created.closed
    assert not fork.head().closed
    assert fork.append(b" and on").status == 204
    assert fork.content() == b"done and on"


@rule("F1", "R2", "A9")
@needs("forks")
def test_a_fork_knows_no_writers(server: Server) -> None:
    """Producer state and Stream-Seq are not inherited."""
    source = server.stream()
    source.append(b"1", {**stamp("p", 5, 0), "Stream-Seq": "m"})
    source.append(b"2", {**stamp("p", 5, 1), "Stream-Seq": "n"})
    fork = fork_of(source)
    assert fork.append(b"no", stamp("p", 5, 2)).status in {400, 409}
    assert fork.append(b"3", {**stamp("p", 0, 0), "Stream-Seq": "a"}).status == 200
    assert fork.content() == b"123"


@rule("F3")
@needs("forks")
@stricter("section 4.2 describes these headers for requests, but does not forbid them in answers")
def test_forks_do_not_show_in_answers(server: Server) -> None:
    """No answer for the fork or its source has a fork header."""
    source = server.stream("text/plain", b"x")
    fork = fork_of(source, source.tail())
    for answer in (fork.created, fork.head(), fork.get(), fork.append(b"y"), source.head(), source.get()):
        assert not [name for name, _ in answer.headers if name.lower().startswith("stream-fork")]


@rule("F3", "L2")
@needs("forks")
@patient
def test_a_sources_append_does_not_wake_the_forks_readers(server: Server) -> None:
    """A reader of the fork waits for the fork's own data."""
    source = server.stream("text/plain", b"x")
    fork = fork_of(source)
    waiting = server.meanwhile(lambda: fork.poll(fork.created.next_offset))
    time.sleep(0.1)
    source.append(b"not for you")
    answer = waiting.result()
    assert answer.status == 204
    assert answer.next_offset == fork.created.next_offset
    woken = server.meanwhile(lambda: fork.poll(fork.created.next_offset))
    time.sleep(0.1)
    fork.append(b"for you")
    assert woken.result().body == b"for you"


@rule("F3", "L2")
@needs("forks")
@patient
def test_inherited_data_is_polled_at_once(server: Server) -> None:
    """A long-poll inside the inherited range does not wait."""
    source = server.stream("text/plain", b"inherited")
    answer = fork_of(source).poll("-1")
    assert answer.status == 200
    assert answer.body == b"inherited"
    assert answer.elapsed_s < 0.4


@rule("F3", "L5")
@needs("forks")
def test_events_of_a_fork(server: Server) -> None:
    """Inherited data first, then the fork's own; the source's later appends never."""
    source = server.stream("text/plain", b"shared")
    fork = fork_of(source)
    with fork.events("-1") as events:
        first = events.until_control(up_to_date=True)
        source.append(b"other")
        fork.append(b"own")
        fork.close()
        rest = events.events()
    assert "".join(event.data for event in first if event.kind == "data") == "shared"
    assert "".join(event.data for event in rest if event.kind == "data") == "own"
