"""The last messages of a stream, in one request (extension; X8)."""

from __future__ import annotations

from millstream_conformance.server.checks import each, needs, patient, rule
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.servers import Server
from millstream_conformance.server.suite.test_forks import fork_of
from millstream_conformance.server.suite.test_retention import overfull

START = "Stream-Start-Offset"


@rule("X8")
@needs("last")
@each("count", {"none": 0, "one": 1, "some": 3, "most": 5, "all": 6, "more": 60})
def test_the_last_messages_of_a_json_stream(server: Server, count: int) -> None:
    """Whatever the appends are that they came in, and the next offset goes on after them."""
    stream = server.stream("application/json")
    for batch in (b"[0]", b"[1,2]", b'[{"a":[3,","]},"4,]",5]'):
        stream.append(batch)
    messages = ["0", "1", "2", '{"a":[3,","]}', '"4,]"', "5"]
    answer = stream.get(f"last:{count}")
    assert answer.status == 200
    assert elements(answer.body) == messages[max(0, len(messages) - count) :]
    assert answer.up_to_date
    assert answer.next_offset == stream.tail()
    assert stream.get(answer.headers.get(START)).body == answer.body


@rule("X8")
@needs("last")
def test_the_last_appends_of_another_stream(server: Server) -> None:
    """They are counted as they were appended."""
    stream = server.stream("text/plain", b"one ")
    stream.append(b"two two ")
    stream.append(b"three")
    assert stream.get("last:1").body == b"three"
    assert stream.get("last:2").body == b"two two three"
    assert stream.get("last:9").body == b"one two two three"


@rule("X8")
@needs("last")
def test_the_last_of_a_large_append(server: Server) -> None:
    """Exactly so many, and none before them."""
    stream = server.stream("application/json")
    numbers = list(range(30_000))
    stream.append(b"[%b]" % b",".join(b"%d" % number for number in numbers))
    stream.append(b"[30000]")
    for count in (1, 2, 5_000):
        assert elements(stream.get(f"last:{count}").body) == [str(n) for n in range(30_001 - count, 30_001)]


@rule("X8", "O3")
@needs("last")
@each("bad", {"nothing": "", "sign": "-1", "words": "few", "fraction": "1.5", "zero": "01", "huge": "9" * 30})
def test_what_is_no_number_is_400(server: Server, bad: str) -> None:
    """The error says so."""
    answer = server.stream("text/plain", b"one").get(f"last:{bad}")
    assert answer.status == 400
    assert answer.json()["code"] == "INVALID_LAST"


@rule("X8", "G6")
@needs("last")
def test_the_last_messages_are_not_stored(server: Server) -> None:
    """They change at every append."""
    stream = server.stream("text/plain", b"one")
    answer = stream.get("last:1")
    assert "no-store" in (answer.headers.get("Cache-Control") or "")
    assert answer.headers.get("ETag") is None
    stream.append(b"two")
    assert stream.get("last:1").body == b"two"


@rule("X8")
@needs("last")
@patient
def test_live_reads_begin_with_the_last_messages(server: Server) -> None:
    """And go on with what follows."""
    stream = server.stream("application/json", b"[1,2,3]")
    assert elements(stream.poll("last:2").body) == ["2", "3"]
    with stream.events("last:2") as live:
        data, control = live.until_control()
        assert (data.json(), control.json()["streamNextOffset"]) == ([2, 3], stream.tail())
        stream.append(b"[4]")
        assert live.until_control()[0].json() == [4]


@rule("X8", "F1")
@needs("last", "forks", "sub-offsets")
def test_the_last_messages_across_a_fork(server: Server) -> None:
    """Those that it inherits count, and those that its source got later do not."""
    source = server.stream("application/json", b"[1,2]")
    middle = source.tail()
    source.append(b"[3,4,5]")
    fork = fork_of(source, middle, headers={"Stream-Fork-Sub-Offset": "2"})
    fork.append(b"[6]")
    for count in range(1, 7):
        assert elements(fork.get(f"last:{count}").body) == ["1", "2", "3", "4", "6"][-count:]


@rule("X8", "X4")
@needs("last", "retain")
@patient
def test_at_most_what_is_kept_is_returned(server: Server) -> None:
    """Asking for more is no error."""
    stream = overfull(server)
    answer = stream.get("last:1000")
    assert answer.status == 200
    assert answer.body == stream.content()
    assert stream.get("last:1").body == b"h" * 600
