"""Producers against a model server that judges as the protocol says, and a network that does what it likes.

The server is `protocol.producers.judge` with a list for a log. Requests arrive in any order, answers
get lost, appends arrive twice. Whatever happens, the log must hold every message once, in order.
"""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import (
    DuplicateAppendError,
    SequenceGapError,
    StaleEpochError,
    StreamClosedError,
    TransportError,
)
from millstream.client.core.models import AppendResult
from millstream.client.core.producers.epochs import MAX_CLAIMS
from millstream.client.core.producers.producing import Batch, ProducerCore
from millstream.client.core.retry import Chance
from millstream.protocol.producers import Accepted, Fenced, Gap, Repeated, Stamp, judge


class Server:
    """A stream that takes producers' appends."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.last: Stamp | None = None
        self.closed_by: Stamp | None = None

    def take(self, stamp: Stamp, batch: Batch) -> Any:
        if self.closed_by is not None:
            if stamp == self.closed_by:
                return AppendResult(self.offset, stream_closed=True, duplicate=True)
            return StreamClosedError(final_offset=self.offset)
        match judge(self.last, stamp):
            case Accepted():
                self.log += batch.messages
                self.last = stamp
                if batch.closes:
                    self.closed_by = stamp
                return AppendResult(self.offset, stream_closed=batch.closes)
            case Repeated():
                return AppendResult(self.offset, duplicate=True)
            case Gap(expected, received):
                return SequenceGapError("gap", expected=expected, received=received)
            case Fenced(current):
                return StaleEpochError("fenced", current_epoch=current)
            case other:
                raise AssertionError(f"the producer broke the protocol: {other}")

    @property
    def offset(self) -> str:
        return f"{len(self.log):032d}"


class Network:
    """Requests under way: each arrives, is answered or lost, and is sent again until it is answered."""

    def __init__(self, server: Server, core: ProducerCore, chance: random.Random, loss: float = 0.3) -> None:
        self._server = server
        self._core = core
        self._chance = chance
        self._loss = loss
        self._under_way: list[tuple[Stamp, Batch]] = []
        self.most_in_flight = 0

    def run(self) -> None:
        while self.step():
            pass

    def step(self) -> bool:
        """Let one request arrive; false if there is none."""
        for batch in self._core.ready():
            stamp = self._core.stamp(batch)
            self._under_way.append((Stamp(stamp.id.encode(), stamp.epoch, stamp.seq), batch))
        self.most_in_flight = max(self.most_in_flight, len(self._under_way))
        if not self._under_way:
            return False
        position = self._chance.randrange(len(self._under_way))
        stamp, batch = self._under_way[position]
        if self._chance.random() < self._loss / 2:
            batch.doubtful = True
            return True  # the request is lost, and will be sent again
        outcome = self._server.take(stamp, batch)
        if self._chance.random() < self._loss / 2:
            batch.doubtful = True
            return True  # the answer is lost, and the request will be sent again
        self._under_way.pop(position)
        if isinstance(outcome, AppendResult):
            self._core.stored(batch, outcome)
        else:
            self._core.refused(batch, outcome)
        return True


def messages(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(0, 80),
    batch_bytes=st.integers(1, 20),
    in_flight=st.integers(1, 8),
)
def test_every_message_is_stored_once_and_in_order(
    seed: int, count: int, batch_bytes: int, in_flight: int
) -> None:
    server, chance = Server(), random.Random(seed)
    core = ProducerCore("p", max_batch_bytes=batch_bytes, max_in_flight=in_flight)
    network = Network(server, core, chance)
    for message in messages(count):
        core.add(message, 0.0)
        if chance.random() < 0.1:
            network.run()
    core.begin_close(b"end")
    network.run()
    assert server.log == [*messages(count), b"end"]
    assert core.failure is None
    assert core.is_settled
    assert core.closed().final_offset == server.offset
    assert network.most_in_flight <= in_flight


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), epoch=st.integers(0, 5), count=st.integers(1, 40))
def test_claiming_an_epoch_keeps_everything_in_order(seed: int, epoch: int, count: int) -> None:
    """Fenced before its first append: nothing of the old epoch was stored, so nothing may be doubled.

    If the outcome of an attempt is not known, it could be: then the producer stops.
    """
    server = Server()
    server.last = Stamp(b"p", epoch + 1, 3)
    core = ProducerCore("p", epoch=epoch, auto_claim=True, max_batch_bytes=4)
    for message in messages(count):
        core.add(message, 0.0)
    core.seal()
    Network(server, core, random.Random(seed)).run()
    assert core.is_settled
    if core.failure is not None:
        assert isinstance(core.failure, StaleEpochError)
        assert server.log == []
    else:
        assert server.log == messages(count)
        assert core.epoch == epoch + 2


def clock(seconds: float, seed: int = 0) -> Chance:
    return Chance(wall_clock=lambda: seconds, random=random.Random(seed).random)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), at_once=st.booleans(), counts=st.tuples(*[st.integers(1, 20)] * 3))
def test_sessions_that_begin_at_any_time_lose_nothing_silently(
    seed: int, at_once: bool, counts: tuple[int, ...]
) -> None:
    """Each is stored once and in order, up to where it was fenced. Also with clocks that go backwards."""
    server, chance = Server(), random.Random(seed)
    cores, networks = [], []
    for number, count in enumerate(counts):
        now_s = 1.0 if at_once else chance.random()
        core = ProducerCore("p", max_batch_bytes=4, chance=clock(now_s, seed + number))
        for message in messages(count):
            core.add(b"%d:%b" % (number, message), 0.0)
        core.seal()
        cores.append(core)
        networks.append(Network(server, core, chance, loss=0 if at_once else 0.3))
    left = list(networks)
    while left:
        network = chance.choice(left)
        if not network.step():
            left.remove(network)
    for number, (core, count) in enumerate(zip(cores, counts, strict=True)):
        mine = [message for message in server.log if message.startswith(b"%d:" % number)]
        whole = [b"%d:%b" % (number, message) for message in messages(count)]
        if core.failure is None:
            assert mine == whole
        else:
            assert isinstance(core.failure, StaleEpochError)
            assert mine == whole[: len(mine)]
    assert any(core.failure is None for core in cores)


def test_a_session_that_begins_is_above_the_one_that_the_server_knows() -> None:
    server = Server()
    server.last = Stamp(b"p", 5_000_000, 3)
    core = ProducerCore("p", chance=clock(1.0))
    assert core.epoch == 1_000_000
    core.add(b"x", 0.0)
    core.seal()
    Network(server, core, random.Random(0), loss=0).run()
    assert server.log == [b"x"]
    assert 5_000_000 < core.epoch <= 5_001_000


def test_a_session_that_has_begun_is_fenced_by_the_next() -> None:
    server, old, new = Server(), ProducerCore("p", chance=clock(1)), ProducerCore("p", chance=clock(2))
    for core in (old, new, old):
        core.add(b"x", 0.0)
        core.seal()
        Network(server, core, random.Random(0), loss=0).run()
    assert isinstance(old.failure, StaleEpochError)
    assert (new.failure, len(server.log)) == (None, 2)


def test_a_duplicate_of_what_was_never_sent_is_a_failure() -> None:
    server = Server()
    server.last = Stamp(b"p", 7, 0)
    core = ProducerCore("p", epoch=7, url="http://h/s")
    core.add(b"x", 0.0)
    core.seal()
    Network(server, core, random.Random(0), loss=0).run()
    assert isinstance(core.failure, DuplicateAppendError)
    assert core.duplicates == 0
    assert "append 0 of epoch 7 of producer 'p'" in str(core.failure)


def test_a_server_that_refuses_every_epoch_is_not_asked_forever() -> None:
    core = ProducerCore("p", chance=clock(1.0))
    core.add(b"x", 0.0)
    core.seal()
    asked = 0
    while batches := list(core.ready()):
        asked += 1
        core.refused(batches[0], StaleEpochError("no", current_epoch=core.epoch))
    assert isinstance(core.failure, StaleEpochError)
    assert asked == MAX_CLAIMS + 1


def test_the_last_epoch_is_not_exceeded() -> None:
    core = ProducerCore("p", chance=clock(1.0))
    core.add(b"x", 0.0)
    core.seal()
    [batch] = core.ready()
    core.refused(batch, StaleEpochError("no", current_epoch=2**53 - 1))
    assert isinstance(core.failure, StaleEpochError)


def test_a_restarted_session_is_a_new_one() -> None:
    core = ProducerCore("p", chance=clock(1.0))
    core.restart()
    assert core.epoch > 1_000_000
    core = ProducerCore("p", epoch=3)
    core.restart()
    assert core.epoch == 4


def test_a_fenced_producer_fails_unless_it_may_claim() -> None:
    server = Server()
    server.last = Stamp(b"p", 7, 0)
    core = ProducerCore("p", epoch=0)
    core.add(b"x", 0.0)
    core.seal()
    Network(server, core, random.Random(0)).run()
    assert isinstance(core.failure, StaleEpochError)
    assert server.log == []
    core.restart()
    assert (core.epoch, core.next_seq, core.failure, core.pending_count) == (8, 0, None, 0)
    core.add(b"y", 0.0)
    core.seal()
    Network(server, core, random.Random(0)).run()
    assert server.log == [b"y"]


def test_closing_a_stream_without_having_written_to_it() -> None:
    server, core = Server(), ProducerCore("p")
    core.begin_close(None)
    Network(server, core, random.Random(0)).run()
    assert (server.log, core.closed().final_offset) == ([], server.offset)


def test_a_server_that_forgot_is_a_failure_not_a_loop() -> None:
    server, core = Server(), ProducerCore("p")
    core.add(b"1", 0.0)
    core.seal()
    Network(server, core, random.Random(0), loss=0).run()
    server.last = None
    core.add(b"2", 0.0)
    core.seal()
    Network(server, core, random.Random(0), loss=0).run()
    assert isinstance(core.failure, SequenceGapError)


def test_a_failed_close_is_repeated_with_the_same_number_and_message() -> None:
    core = ProducerCore("p")
    core.begin_close(b"end")
    [batch] = core.ready()
    core.refused(batch, TransportError("cut"))
    assert core.failure is not None
    core.begin_close(b"another end")
    [again] = core.ready()
    assert (again is batch, again.seq, again.messages, core.failure) == (True, 0, [b"end"], None)


def test_nothing_follows_a_hole() -> None:
    core = ProducerCore("p", max_batch_bytes=1)
    for message in messages(3):
        core.add(message, 0.0)
    core.seal()
    [first] = core.ready()
    core.refused(first, TransportError("cut"))
    assert list(core.ready()) == []
    assert core.is_settled


def test_the_first_of_an_epoch_travels_alone() -> None:
    core = ProducerCore("p", max_batch_bytes=1, max_in_flight=5)
    for message in messages(9):
        core.add(message, 0.0)
    [first] = core.ready()
    assert list(core.ready()) == []
    core.stored(first, AppendResult("1"))
    assert [batch.seq for batch in core.ready()] == [1, 2, 3, 4, 5]


def test_a_batch_is_due_after_its_first_message_has_lingered() -> None:
    core = ProducerCore("p", linger_s=0.005)
    assert core.due_at is None
    assert core.add(b"x", 10.0) is True
    assert core.add(b"y", 10.004) is False
    assert core.due_at == pytest.approx(10.005)


def test_counts_tell_what_is_where() -> None:
    core = ProducerCore("p", max_batch_bytes=4)
    for message in messages(5):
        core.add(message, 0.0)
    assert (core.pending_count, core.in_flight_count) == (5, 0)
    list(core.ready())
    assert (core.pending_count, core.in_flight_count) == (3, 1)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("producer_id", {"producer_id": ""}),
        ("epoch", {"epoch": -1}),
        ("epoch", {"epoch": 2**53}),
        ("max_batch_bytes", {"max_batch_bytes": 0}),
        ("linger_ms", {"linger_s": -0.001}),
        ("max_in_flight", {"max_in_flight": 0}),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=name):
        ProducerCore(**{"producer_id": "p", **options})
