"""Closing with producer headers: only a retry of the close succeeds (protocol 5.2.1)."""

from __future__ import annotations

from collections.abc import Mapping

from millstream_conformance.server.checks import case, each, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream, stamp
from millstream_conformance.server.wire import Answer


def is_closed_conflict(answer: Answer, stream: Stream) -> bool:
    """Whether an answer is the refusal of a closed stream: 409, closed, final offset."""
    return answer.status == 409 and answer.closed and answer.next_offset == stream.tail()


@rule("A1", "R3")
@case("idempotent-close-with-append")
def test_a_producer_closes_with_its_last_append(server: Server) -> None:
    """A producer's last append can close the stream."""
    stream = server.stream()
    stream.append(b"one ", stamp("p", 0, 0))
    answer = stream.close(b"two", stamp("p", 0, 1))
    assert answer.status == 200
    assert answer.closed
    assert answer.headers.get("Producer-Seq") == "1"
    assert stream.content() == b"one two"
    assert stream.head().closed


@rule("A7")
@case(
    "idempotent-close-with-append-duplicate",
    "idempotent-close-duplicate-returns-204",
    "close-with-different-body-dedup",
)
@each("body", {"same": b"last", "other": b"something else", "none": b""})
def test_repeating_the_closing_append_is_204(server: Server, body: bytes) -> None:
    """Repeating the closing request is 204, whatever its body, and the first body is kept."""
    stream = server.stream()
    first = stream.close(b"last", stamp("p", 0, 0))
    again = stream.close(body, stamp("p", 0, 0))
    assert again.status == 204
    assert again.closed
    assert again.next_offset == first.next_offset
    assert again.headers.get("Producer-Epoch") == "0"
    assert again.headers.get("Producer-Seq") == "0"
    assert stream.content() == b"last"


@rule("A7")
def test_the_closing_tuple_succeeds_without_asking_to_close(server: Server) -> None:
    """The closing tuple is 204 even without Stream-Closed."""
    stream = server.stream()
    stream.close(b"last", stamp("p", 0, 0))
    again = stream.append(b"last", stamp("p", 0, 0))
    assert again.status == 204
    assert again.closed


@rule("A6")
@case("idempotent-close-only-with-producer-headers")
def test_close_only_takes_part_in_sequencing(server: Server) -> None:
    """A close-only with producer headers is validated like an append, and echoes them."""
    stream = server.stream()
    stream.append(b"x", stamp("p", 1, 0))
    assert stream.close(headers=stamp("p", 1, 5)).status == 409
    assert stream.close(headers=stamp("p", 0, 0)).status == 403
    assert stream.close(headers=stamp("p", 2, 3)).status == 400
    assert not stream.head().closed
    answer = stream.close(headers=stamp("p", 1, 1))
    assert answer.status == 204
    assert answer.closed
    assert answer.headers.get("Producer-Epoch") == "1"
    assert answer.headers.get("Producer-Seq") == "1"
    assert stream.content() == b"x"


@rule("A6")
@case("idempotent-close-only-duplicate", "idempotent-close-only-duplicate-returns-204")
def test_repeating_a_stamped_close_is_204(server: Server) -> None:
    """Close-only with the closing tuple succeeds again."""
    stream = server.stream("text/plain", b"x")
    first = stream.close(headers=stamp("p", 0, 0))
    again = stream.close(headers=stamp("p", 0, 0))
    assert again.status == 204
    assert again.closed
    assert again.next_offset == first.next_offset


@rule("A7")
@case("idempotent-close-different-producer", "idempotent-close-different-tuple-returns-409")
@each("other", {"producer": stamp("q", 0, 0), "epoch": stamp("p", 1, 0)})
def test_another_tuple_cannot_close_again(server: Server, other: Mapping[str, str]) -> None:
    """Another producer or epoch that closes with a body is 409 with Stream-Closed."""
    stream = server.stream()
    stream.close(b"last", stamp("p", 0, 0))
    assert is_closed_conflict(stream.close(b"mine", other), stream)
    assert stream.content() == b"last"


@rule("A7")
@case("idempotent-close-different-seq", "idempotent-close-different-seq-returns-409")
@each("seq", {"next": "2", "earlier": "0", "later": "9"})
def test_another_seq_cannot_close_again(server: Server, seq: str) -> None:
    """The closing producer with any other seq is 409 with Stream-Closed."""
    stream = server.stream()
    stream.append(b"one ", stamp("p", 0, 0))
    stream.close(b"last", stamp("p", 0, 1))
    assert is_closed_conflict(stream.close(b"more", stamp("p", 0, seq)), stream)
    assert is_closed_conflict(stream.append(b"more", stamp("p", 0, seq)), stream)


@rule("A6")
@each(
    "stamped",
    {
        "unknown-producer": (stamp("q", 0, 0), 409),
        "next-seq": (stamp("p", 1, 1), 409),
        "gap": (stamp("p", 1, 7), 409),
        "newer-epoch": (stamp("p", 2, 0), 409),
        "closing-tuple": (stamp("p", 1, 0), 204),
    },
)
@stricter(
    "section 5.2.1 says 409, but also that a close with producer headers is still idempotent",
    rows=["unknown-producer", "next-seq", "gap", "newer-epoch"],
)
def test_a_stamped_close_of_a_closed_stream(server: Server, stamped: tuple[dict[str, str], int]) -> None:
    """Close-only on a closed stream: the closing tuple is 204, any other 409."""
    headers, status = stamped
    stream = server.stream()
    stream.close(b"last", stamp("p", 1, 0))
    answer = stream.close(headers=headers)
    assert answer.status == status
    assert answer.closed
    assert answer.next_offset == stream.tail()


@rule("A6")
@stricter(
    "section 5.2.1 demands 403 for a stale epoch, 409 for a closed stream, and that closing is idempotent"
)
def test_a_stale_close_of_a_closed_stream_is_refused(server: Server) -> None:
    """Close-only with a stale epoch is 403 with the current epoch, or 409 with Stream-Closed."""
    stream = server.stream()
    stream.close(b"last", stamp("p", 1, 0))
    answer = stream.close(headers=stamp("p", 0, 0))
    if answer.status == 403:
        assert answer.headers.get("Producer-Epoch") == "1"
    else:
        assert is_closed_conflict(answer, stream)


@rule("A6")
@stricter("section 5.2.1 says 409, but also that a close with producer headers is still idempotent")
def test_a_stamped_close_after_an_unstamped_one_is_409(server: Server) -> None:
    """After a close without a producer, a close with one is 409 and one without is 204."""
    stream = server.stream()
    stream.close()
    assert is_closed_conflict(stream.close(headers=stamp("p", 0, 0)), stream)
    assert stream.close().status == 204


@rule("A7")
def test_a_stale_epoch_with_a_body_is_told_closed(server: Server) -> None:
    """A stale epoch with a body on a closed stream is 409 with Stream-Closed."""
    stream = server.stream()
    stream.close(b"last", stamp("p", 3, 0))
    assert is_closed_conflict(stream.append(b"old", stamp("p", 1, 0)), stream)


@rule("A5", "A7")
def test_an_earlier_append_is_not_a_repeat_once_closed(server: Server) -> None:
    """On a closed stream only the closing tuple is a duplicate; an earlier one is 409."""
    stream = server.stream()
    stream.append(b"one", stamp("p", 0, 0))
    stream.close()
    assert is_closed_conflict(stream.append(b"one", stamp("p", 0, 0)), stream)
