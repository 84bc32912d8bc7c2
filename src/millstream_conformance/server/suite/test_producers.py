"""Idempotent producers: headers, fencing, gaps, duplicates (protocol 5.2.1)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hypothesis import strategies as st

from millstream_conformance.server.checks import case, each, rule, stricter
from millstream_conformance.server.laws import law
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import stamp

NAMES = ("Producer-Id", "Producer-Epoch", "Producer-Seq")


@rule("R1")
@each("missing", {name.lower(): name for name in NAMES})
def test_producer_headers_come_together(server: Server, missing: str) -> None:
    """Two of the three headers, or one alone, are 400 and append nothing."""
    stream = server.stream("text/plain", b"x")
    complete = stamp("p", 0, 0)
    assert stream.append(b"y", {key: complete[key] for key in NAMES if key != missing}).status == 400
    assert stream.append(b"y", {missing: complete[missing]}).status == 400
    assert stream.content() == b"x"


@rule("R1")
def test_an_empty_producer_id_is_400(server: Server) -> None:
    """An empty Producer-Id is 400."""
    stream = server.stream("text/plain", b"x")
    assert stream.append(b"y", stamp("", 0, 0)).status == 400
    assert stream.content() == b"x"


@rule("R1")
@each("header", {"epoch": "Producer-Epoch", "seq": "Producer-Seq"})
@each(
    "value",
    {
        "word": "one",
        "minus": "-1",
        "plus": "+0",
        "point": "0.0",
        "exponent": "0e0",
        "hexadecimal": "0x0",
        "empty": "",
        "underscore": "0_0",
        "over-2-to-53": "9007199254740992",
        "huge": "9" * 40,
        "arabic-digit": "٠".encode().decode("latin-1"),
    },
)
@stricter(
    "section 5.2.1 asks for a non-negative integer and does not mention a sign",
    rows=["epoch-plus", "seq-plus"],
)
def test_producer_numbers_are_plain_integers(server: Server, header: str, value: str) -> None:
    """Epoch and seq are ASCII digits up to 2^53-1; anything else is 400."""
    stream = server.stream("text/plain", b"x")
    assert stream.append(b"y", {**stamp("p", 0, 0), header: value}).status == 400
    assert stream.content() == b"x"


@rule("R1", "R2")
def test_the_largest_epoch_is_accepted(server: Server) -> None:
    """2^53-1 is a valid epoch."""
    stream = server.stream()
    answer = stream.append(b"x", stamp("p", 9007199254740991, 0))
    assert answer.status == 200
    assert answer.headers.get("Producer-Epoch") == "9007199254740991"


@rule("R2")
@stricter("section 5.2.1 does not say which error an unknown producer gets")
def test_an_unknown_producer_starts_at_zero(server: Server) -> None:
    """The first seq is 0, in any epoch; a later one is a gap from 0."""
    stream = server.stream()
    answer = stream.append(b"no", stamp("p", 3, 2))
    assert answer.status == 409
    assert answer.headers.get("Producer-Expected-Seq") == "0"
    assert answer.headers.get("Producer-Received-Seq") == "2"
    assert not answer.closed
    assert stream.append(b"yes", stamp("p", 3, 0)).status == 200


@rule("R2", "R3")
def test_a_lower_epoch_is_fenced(server: Server) -> None:
    """A stale epoch is 403 with the current epoch."""
    stream = server.stream()
    stream.append(b"x", stamp("p", 5, 0))
    for seq in (0, 1):
        answer = stream.append(b"no", stamp("p", 4, seq))
        assert answer.status == 403
        assert answer.headers.get("Producer-Epoch") == "5"
    assert stream.content() == b"x"


@rule("R2")
def test_a_higher_epoch_starts_at_zero(server: Server) -> None:
    """A new epoch that does not start with seq 0 is 400."""
    stream = server.stream()
    stream.append(b"1", stamp("p", 0, 0))
    assert stream.append(b"no", stamp("p", 1, 1)).status == 400
    assert stream.append(b"2", stamp("p", 0, 1)).status == 200, "the refused epoch fenced nobody"
    assert stream.append(b"3", stamp("p", 7, 0)).status == 200
    assert stream.append(b"no", stamp("p", 0, 2)).status == 403
    assert stream.content() == b"123"


@rule("R2")
def test_a_gap_is_409_with_both_numbers(server: Server) -> None:
    """A gap is 409 with the expected and the received seq."""
    stream = server.stream()
    stream.append(b"1", stamp("p", 0, 0))
    answer = stream.append(b"no", stamp("p", 0, 3))
    assert answer.status == 409
    assert answer.headers.get("Producer-Expected-Seq") == "1"
    assert answer.headers.get("Producer-Received-Seq") == "3"
    assert stream.append(b"2", stamp("p", 0, 1)).status == 200
    assert stream.content() == b"12"


@rule("R3")
def test_success_echoes_the_highest_accepted_seq(server: Server) -> None:
    """A success has the highest accepted seq, also for a duplicate of an older one."""
    stream = server.stream()
    for seq in range(3):
        answer = stream.append(b"x", stamp("p", 2, seq))
        assert answer.status == 200
        assert answer.headers.get("Producer-Epoch") == "2"
        assert answer.headers.get("Producer-Seq") == str(seq)
    repeat = stream.append(b"x", stamp("p", 2, 0))
    assert repeat.status == 204
    assert repeat.headers.get("Producer-Epoch") == "2"
    assert repeat.headers.get("Producer-Seq") == "2"
    assert repeat.next_offset == stream.tail()


@rule("R2")
def test_producers_and_streams_do_not_share_state(server: Server) -> None:
    """Producer state is kept per producer id and per stream."""
    one, two = server.stream(), server.stream()
    assert one.append(b"a", stamp("p", 4, 0)).status == 200
    assert one.append(b"b", stamp("q", 0, 0)).status == 200
    assert one.append(b"c", stamp("P", 0, 0)).status == 200
    assert two.append(b"a", stamp("p", 0, 0)).status == 200
    assert one.content() == b"abc"


@rule("R4", "A2")
@case("producer-duplicate-returns-204-even-with-stream-seq")
@stricter("the protocol gives no order for these two; a retry repeats both headers")
def test_a_repeat_is_recognised_before_stream_seq(server: Server) -> None:
    """A duplicate with the Stream-Seq of the first try is 204, not a sequence conflict."""
    stream = server.stream()
    headers = {**stamp("p", 0, 0), "Stream-Seq": "a"}
    assert stream.append(b"x", headers).status == 200
    assert stream.append(b"x", headers).status == 204
    assert stream.append(b"y", {**stamp("p", 0, 1), "Stream-Seq": "b"}).status == 200
    assert stream.append(b"x", headers).status == 204
    assert stream.content() == b"xy"


@rule("R4")
def test_a_repeat_with_another_body_changes_nothing(server: Server) -> None:
    """A duplicate with another body is 204, and the first body is kept."""
    stream = server.stream()
    stream.append(b"first", stamp("p", 0, 0))
    assert stream.append(b"SECOND", stamp("p", 0, 0)).status == 204
    assert stream.content() == b"first"


@rule("R4")
def test_a_refused_append_does_not_use_up_its_seq(server: Server) -> None:
    """After a content type or JSON error, the same seq is accepted with a valid body."""
    stream = server.stream("application/json")
    assert stream.append(b"[1", stamp("p", 0, 0)).status == 400
    assert stream.append(b"1", stamp("p", 0, 0), content_type="text/plain").status == 409
    assert stream.append(b"1", {**stamp("p", 0, 0)}).status == 200
    assert stream.append(b"2", {**stamp("p", 0, 1), "Stream-Seq": "b"}).status == 200
    assert stream.append(b"3", {**stamp("p", 0, 2), "Stream-Seq": "a"}).status == 409
    assert stream.append(b"3", {**stamp("p", 0, 2), "Stream-Seq": "c"}).status == 200
    assert stream.get().json() == [1, 2, 3]


@rule("R4")
def test_retrying_every_append_changes_nothing(server: Server) -> None:
    """However often each append is repeated, the stream holds each body once, in order."""

    @law(examples=15, repeats=st.lists(st.integers(0, 3), min_size=1, max_size=6), late=st.integers(0, 5))
    def holds(repeats: list[int], late: int) -> None:
        server.transcript.clear()
        stream = server.stream()
        for seq, times in enumerate(repeats):
            body = f"<{seq}>".encode()
            assert stream.append(body, stamp("p", 0, seq)).status == 200
            assert all(stream.append(body, stamp("p", 0, seq)).status == 204 for _ in range(times))
        assert stream.append(b"late", stamp("p", 0, late % len(repeats))).status == 204
        assert stream.content() == b"".join(f"<{seq}>".encode() for seq in range(len(repeats)))


@dataclass
class Model:
    """What the protocol says a server remembers of one producer, and how it answers."""

    epoch: int = -1
    last: int = -1

    def judge(self, epoch: int, seq: int) -> int:
        """The status for a stamp; accepting it moves the state on."""
        if self.epoch == -1 and seq != 0:
            return 409
        if epoch < self.epoch:
            return 403
        if epoch > self.epoch:
            if seq != 0:
                return 400
            self.epoch, self.last = epoch, 0
            return 200
        if seq <= self.last:
            return 204
        if seq > self.last + 1:
            return 409
        self.last = seq
        return 200


@rule("R2", "R4")
def test_any_walk_of_stamps_is_judged_like_the_model(server: Server) -> None:
    """Any sequence of epochs and seqs gets the statuses of a model, and only accepted bodies are stored."""
    stamps = st.lists(st.tuples(st.sampled_from("pq"), st.integers(0, 2), st.integers(0, 3)), max_size=12)

    @law(examples=25, walk=stamps)
    def holds(walk: list[tuple[str, int, int]]) -> None:
        server.transcript.clear()
        stream, models, kept = server.stream(), {"p": Model(), "q": Model()}, b""
        for number, (name, epoch, seq) in enumerate(walk):
            body = f"<{number}>".encode()
            expected = models[name].judge(epoch, seq)
            status = stream.append(body, stamp(name, epoch, seq)).status
            # Section 5.2.1 does not say whether an unknown producer's first seq is a gap or a bad epoch.
            assert status == expected or (models[name].epoch == -1 and status in {400, 409})
            kept += body if expected == 200 else b""
        assert stream.content() == kept


@rule("R5", "R2")
def test_pipelined_appends_end_up_in_order(server: Server) -> None:
    """Eight appends sent at once, refused ones sent again: each body is there once, in order."""
    stream = server.stream()

    def deliver(seq: int) -> int:
        for attempt in range(200):
            status = stream.append(f"<{seq}>".encode(), stamp("p", 0, seq)).status
            if status not in {400, 409}:  # section 5.2.1 does not say which of them an unknown producer gets
                return status
            time.sleep(min(0.05, 0.001 * 2**attempt))  # for those before it to get through
        raise AssertionError(f"seq {seq} is never accepted")

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(deliver, reversed(range(8))))
    assert set(statuses) <= {200, 204}
    assert stream.content() == b"".join(f"<{seq}>".encode() for seq in range(8))


@rule("R4", "R5")
def test_racing_retries_append_once(server: Server) -> None:
    """The same append sent eight times at once is one 200 and seven 204."""
    stream = server.stream()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: stream.append(b"once", stamp("p", 0, 0)), range(8)))
    assert sorted(answer.status for answer in answers) == [200] + [204] * 7
    assert stream.content() == b"once"
