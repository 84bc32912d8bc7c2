"""Any history of workers, leases and a clock that jumps: a subscription does what a page of plain code says.

Workers lose answers, are slow, repeat themselves and use old tokens. The clock goes forwards and backwards,
and the engine may be opened anew between any two requests.

Rules S1, S4.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engines.driving import ENGINES, Engine, examples
from engines.test_subscriptions import Desk
from millstream.protocol.subscriptions import wakes
from millstream.store.subscriptions.working import Claimed, Settled

LEASE_MS = 1000
STREAMS = ("/in/a", "/in/b", "/in/c")
WORKERS = ("ann", "bob", "cy")


@dataclass
class Lease:
    """Who has the wake of the moment, until when; nobody has it at first."""

    holder: str = ""
    until_ms: int = 0


class SubscriptionMachine(RuleBasedStateMachine):
    """An engine beside a model of one subscription."""

    engine_kind = ""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.engine = Engine(self.engine_kind, Path(self._folder.name))
        self.desk = Desk(self.engine)
        self.tails = dict.fromkeys(STREAMS, 0)
        for name in STREAMS:
            self.engine.create(name)
        self.desk.pull(lease_ttl_ms=LEASE_MS)
        self.acked = dict.fromkeys(STREAMS, 0)
        self.generation = 0
        self.wake: Lease | None = None
        self.announced: list[int] = []
        self.ticked_ms = self.engine.now_ms
        self.claims: list[tuple[Claimed, int, dict[str, int]]] = []

    def teardown(self) -> None:
        self.engine.__exit__()
        self._folder.cleanup()

    @property
    def is_pending(self) -> bool:
        return any(self.tails[name] > self.acked[name] for name in STREAMS)

    def _issue(self) -> None:
        self.generation += 1
        self.wake = Lease()
        self.announced.append(self.generation)

    def _end_wake(self) -> None:
        self.wake = None
        if self.is_pending:
            self._issue()

    @rule(name=st.sampled_from(STREAMS), size=st.integers(1, 3))
    def append(self, name: str, size: int) -> None:
        self.engine.append(name, b"x" * size)
        self.tails[name] += size
        if self.wake is None:
            self._issue()

    @rule(worker=st.sampled_from(WORKERS), is_lost=st.booleans())
    def claim(self, worker: str, is_lost: bool) -> None:
        now_ms = self.engine.now_ms
        found = self.desk.claim(worker)
        if self.wake is not None and self.wake.holder and now_ms < self.wake.until_ms:
            assert found == wakes.AlreadyClaimed(self.wake.holder, self.generation)
        elif not self.is_pending:
            assert found == wakes.NothingPending()
            self.wake = None
        else:
            assert isinstance(found, Claimed)
            if self.wake is None or self.wake.holder:
                self.generation += 1
            self.wake = Lease(worker, now_ms + LEASE_MS)
            assert found.shown.subscription.generation == self.generation
            shown = {one.name: (one.link.acked, one.tail) for one in found.shown.streams if one.is_pending}
            pending = {n: (self.acked[n], t) for n, t in self.tails.items() if t > self.acked[n]}
            assert shown == pending
            if not is_lost:
                self.claims.append((found, self.generation, dict(self.tails)))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), is_done=st.booleans(), is_release=st.booleans())
    def settle(self, data: st.DataObject, is_done: bool, is_release: bool) -> None:
        claimed, generation, tails = data.draw(st.sampled_from(self.claims), label="claim")
        names = data.draw(st.lists(st.sampled_from(STREAMS), unique=True), label="acked")
        acks = {name: data.draw(st.integers(0, tails[name] + 1), label=name) for name in names}
        found = self.desk.settle(claimed, acks, "release" if is_release else "ack", done=is_done)
        wake, now_ms = self.wake, self.engine.now_ms
        is_current = wake is not None and bool(wake.holder) and now_ms < wake.until_ms
        if not is_current or generation != self.generation:
            assert found == wakes.Fenced()
            return
        assert wake is not None
        is_bad = any(not self.acked[name] <= offset <= self.tails[name] for name, offset in acks.items())
        if not is_release and is_bad:
            assert isinstance(found, wakes.BadAck)
            return
        if not is_release:
            self.acked |= acks
            wake.until_ms = now_ms + LEASE_MS
        if is_release or is_done:
            self._end_wake()
            assert found == Settled(next_wake=self.wake is not None)
        else:
            assert found == Settled(next_wake=False)

    @rule(by_ms=st.sampled_from([1, 200, 999, 1000, 1001, 5000, -1, -500, -5000, -(10**6)]))
    def wait(self, by_ms: int) -> None:
        self.engine.now_ms = max(1, self.engine.now_ms + by_ms)
        self.engine.expire()
        now_ms, wake = self.engine.now_ms, self.wake
        if now_ms < self.ticked_ms - 1000 and wake is not None and wake.holder:
            wake.until_ms = min(wake.until_ms, now_ms + LEASE_MS)
        self.ticked_ms = now_ms
        if wake is not None and wake.holder and now_ms >= wake.until_ms:
            self._end_wake()

    @rule(how=st.sampled_from(["restart", "checkpoint", "crash"]))
    def interrupt(self, how: str) -> None:
        getattr(self.engine, how)()
        if self.engine.survives_restart and how != "checkpoint":
            self.ticked_ms = 0  # a new process knows of no time before

    @rule(name=st.sampled_from(STREAMS))
    def replace(self, name: str) -> None:
        """A stream is deleted, and another one of its name is made."""
        self.engine.delete(name)
        self.engine.create(name)
        self.tails[name] = self.acked[name] = 0
        self.claims = [claim for claim in self.claims if name not in claim[2]]

    @invariant()
    def cursors_are_right(self) -> None:
        found = {name: acked for name, (acked, _) in self.desk.links().items()}
        # One that is not shown is processed up to its tail.
        assert all(found.get(name, self.tails[name]) == self.acked[name] for name in STREAMS)

    @invariant()
    def every_wake_has_its_event(self) -> None:
        self.desk.expect_events(self.announced)


@pytest.mark.parametrize("kind", ENGINES)
def test_workers_leases_and_clocks(kind: str) -> None:
    class Machine(SubscriptionMachine):
        engine_kind = kind

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=min(30, examples(kind)),
            stateful_step_count=30,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_subscription_that_fences_nobody_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the machine would prove little."""
    monkeypatch.setattr(wakes, "refuse_settling", lambda *_: None)
    monkeypatch.setattr("engines.driving.PATIENCE_S", 0.5)  # in memory an event is there at once, or never

    class Machine(SubscriptionMachine):
        engine_kind = "memory"

    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=200,
                stateful_step_count=30,
                deadline=None,
                database=None,
                derandomize=True,  # it is found, or not: no matter of luck
                report_multiple_bugs=False,  # one is enough
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
