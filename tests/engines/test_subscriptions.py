"""Subscriptions on every engine, with a restart or a checkpoint between any two requests: rules S1, S4."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engines.driving import ENGINES, JSON, Engine
from millstream.protocol.expiry import Lifetime
from millstream.protocol.subscriptions import wakes
from millstream.protocol.subscriptions.answers import Shown
from millstream.protocol.subscriptions.configurations import parse_configuration
from millstream.protocol.subscriptions.keys import Keys, SigningKey, published
from millstream.protocol.subscriptions.problems import Differs, Unknown
from millstream.protocol.subscriptions.requests import Ack, SettleRequest
from millstream.protocol.subscriptions.tokens import Claim, read_claim
from millstream.store.pending import Eventually, settled
from millstream.store.subscriptions.members import MAX_IDLE
from millstream.store.subscriptions.registry import Registered
from millstream.store.subscriptions.working import Attempt, Claimed, Settled

KEYS = Keys(b"t" * 32, (SigningKey(b"p" * 32, b"q" * 32),))
ROOT = "/"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Each engine that has subscriptions, in turn."""
    with Engine(request.param, tmp_path) as engine:
        yield engine


class Desk:
    """Requests about one subscription, with less to type."""

    def __init__(self, engine: Engine, id: str = "sub") -> None:
        self.engine = engine
        self.id = id
        self.key = ROOT + id

    def run(self, request: Callable[[], Eventually[Any]]) -> Any:
        async def decide() -> Any:
            return await settled(request())

        return self.engine._runner.run(decide())

    @property
    def parts(self) -> Any:
        return self.engine.store.subscriptions

    def put(self, **asked: Any) -> Any:
        configuration = parse_configuration(msgspec.json.encode(asked), ROOT)
        return self.run(
            lambda: self.parts.registry.create(
                self.id, ROOT, configuration, "http://h/__ds/x", KEYS, self.engine.now_ms
            )
        )

    def pull(self, **more: Any) -> Any:
        self.engine.create("/wake", content_type=JSON)
        return self.put(**{"type": "pull-wake", "pattern": "in/**", "wake_stream": "wake", **more})

    def webhook(self, **more: Any) -> Any:
        return self.put(
            **{"type": "webhook", "pattern": "in/**", "webhook": {"url": "https://x.example/"}, **more}
        )

    def read(self) -> Any:
        return self.run(lambda: self.parts.registry.read(self.key))

    def links(self) -> dict[str, tuple[int, bool]]:
        shown: Shown = self.read()
        return {one.name: (one.link.acked, one.link.is_explicit) for one in shown.streams}

    def claim(self, worker: str = "w") -> Any:
        return self.run(lambda: self.parts.working.claim(self.key, worker, self.engine.now_ms))

    def settle(
        self, claimed: Claimed, acks: Mapping[str, int] | None = None, action: str = "ack", done: bool = True
    ) -> Any:
        claim = read_claim(claimed.token, KEYS.token_key)
        assert claim is not None
        return self.settle_claim(claim, acks, action, done)

    def settle_claim(
        self, claim: Claim, acks: Mapping[str, int] | None = None, action: str = "ack", done: bool = True
    ) -> Any:
        entries = tuple(Ack(name, offset) for name, offset in (acks or {}).items())
        request = SettleRequest(claim.wake_id, claim.generation, entries, done)
        return self.run(
            lambda: self.parts.working.settle(self.key, action, claim, request, self.engine.now_ms)
        )

    def attempt(self) -> Any:
        return self.run(lambda: self.parts.working.begin_attempt(self.key, self.engine.now_ms))

    def expect_events(self, generations: list[int]) -> None:
        """Wait until the events are durable, and have these generations."""
        self.engine.until(lambda: len(self.events()) >= len(generations))
        assert [event["generation"] for event in self.events()] == generations

    def events(self) -> list[Any]:
        return list(msgspec.json.decode(b"[" + self.engine.content("/wake").rstrip(b",") + b"]"))


@pytest.fixture
def desk(engine: Engine) -> Desk:
    return Desk(engine)


Meanwhile = Callable[[], None]


def test_a_claim_its_token_and_its_cursor_survive(desk: Desk, meanwhile: Meanwhile) -> None:
    """S1, S4: a worker goes on with what it was given, whatever happens between its requests."""
    engine = desk.engine
    engine.create("/in/a", b"old")
    assert isinstance(desk.pull(), Registered)
    meanwhile()
    engine.append("/in/a", b"new")
    meanwhile()
    desk.expect_events([1])
    claimed = desk.claim()
    assert isinstance(claimed, Claimed)
    (stream,) = claimed.shown.streams
    assert (stream.link.acked, stream.tail, stream.is_pending) == (3, 6, True)
    meanwhile()
    assert isinstance(desk.claim("other"), wakes.AlreadyClaimed)
    assert desk.settle(claimed, {"/in/a": 5}, done=False) == Settled(next_wake=False)
    meanwhile()
    assert desk.links() == {"/in/a": (5, False)}
    assert desk.settle(claimed, {"/in/a": 6}) == Settled(next_wake=False)
    meanwhile()
    assert desk.links() == {"/in/a": (6, False)}
    assert isinstance(desk.settle(claimed, {"/in/a": 6}), wakes.Fenced)
    assert isinstance(desk.claim(), wakes.NothingPending)


def test_each_wake_has_a_generation_of_its_own(desk: Desk, meanwhile: Meanwhile) -> None:
    """S1: a generation is never used twice, also not after a restart."""
    desk.pull()
    generations = []
    for number in range(1, 4):
        desk.engine.append("/in/a", b"x") if number > 1 else desk.engine.create("/in/a", b"x")
        meanwhile()
        claimed = desk.claim()
        generations.append(claimed.shown.subscription.generation)
        meanwhile()
        assert desk.settle(claimed, {"/in/a": number}) == Settled(next_wake=False)
        meanwhile()
    assert generations == [1, 2, 3]
    desk.expect_events([1, 2, 3])


def test_a_lease_that_ends_wakes_again_and_fences(desk: Desk, meanwhile: Meanwhile) -> None:
    """S1."""
    desk.pull(lease_ttl_ms=1000)
    desk.engine.create("/in/a", b"x")
    claimed = desk.claim()
    meanwhile()
    desk.engine.now_ms += 999
    desk.engine.expire()
    assert isinstance(desk.claim(), wakes.AlreadyClaimed)
    desk.engine.now_ms += 1
    meanwhile()
    desk.engine.expire()
    desk.expect_events([1, 2])
    assert isinstance(desk.settle(claimed, {"/in/a": 1}), wakes.Fenced)
    again = desk.claim("other")
    assert again.shown.subscription.generation == 2
    assert desk.links() == {"/in/a": (0, False)}


def test_a_release_wakes_again(desk: Desk, meanwhile: Meanwhile) -> None:
    """S1, S4."""
    desk.pull()
    desk.engine.create("/in/a", b"x")
    claimed = desk.claim()
    meanwhile()
    assert desk.settle(claimed, action="release") == Settled(next_wake=True)
    meanwhile()
    desk.expect_events([1, 2])


def test_one_bad_ack_refuses_all(desk: Desk) -> None:
    """S4."""
    desk.pull()
    desk.engine.create("/in/a", b"xy")
    claimed = desk.claim()
    for bad in ({"/in/b": 1}, {"/in/a": 3}, {"/elsewhere": 0}):
        assert isinstance(desk.settle(claimed, {"/in/a": 1} | bad), wakes.BadAck)
    desk.settle(claimed, {"/in/a": 1}, done=False)
    assert isinstance(desk.settle(claimed, {"/in/a": 0}), wakes.BadAck)
    assert desk.links() == {"/in/a": (1, False)}


def test_the_schedule_of_retries_is_kept(desk: Desk, meanwhile: Meanwhile) -> None:
    """S1: a restart neither hurries an attempt nor forgets it."""
    due: list[str] = []
    desk.webhook()
    desk.engine.create("/in/a", b"x")
    desk.parts.waking.chance = lambda: 0.5
    attempt = desk.attempt()
    assert isinstance(attempt, Attempt)
    desk.run(lambda: desk.parts.working.fail(attempt, "no", desk.engine.now_ms))
    meanwhile()
    desk.parts.waking.on_due = due.append
    state = desk.read().subscription
    assert (state.attempts, state.next_attempt_ms, state.last_error) == (1, desk.engine.now_ms + 1000, "no")
    desk.engine.now_ms += 999
    desk.engine.expire()
    assert (due, desk.attempt()) == ([], None)
    desk.engine.now_ms += 1
    desk.engine.expire()
    assert due == ["/sub"]
    again = desk.attempt()
    assert again.wake_id == attempt.wake_id
    desk.run(lambda: desk.parts.working.succeed(again, desk.engine.now_ms, is_done=True))
    meanwhile()
    state = desk.read().subscription
    assert (state.attempts, state.next_attempt_ms, state.wake) == (0, None, None)
    assert desk.links() == {"/in/a": (1, False)}


def test_an_attempt_that_a_crash_cut_off_is_made_again(desk: Desk) -> None:
    """S1: at least once."""
    due: list[str] = []
    desk.webhook()
    desk.engine.create("/in/a", b"x")
    attempt = desk.attempt()
    desk.engine.crash()
    if desk.engine.survives_restart:
        desk.parts.waking.on_due = due.append
        desk.engine.expire()
        assert due == ["/sub"]
        again = desk.attempt()
        assert (again.wake_id, again.tails) == (attempt.wake_id, attempt.tails)


def test_a_late_answer_of_a_former_wake_changes_nothing(desk: Desk) -> None:
    """S1: after a callback has ended the wake, what comes of the attempt itself is history."""
    desk.webhook()
    desk.engine.create("/in/a", b"x")
    attempt = desk.attempt()
    claim = Claim(desk.key, 1, attempt.wake_id)
    assert desk.settle_claim(claim, {"/in/a": 1}, "callback") == Settled(next_wake=False)
    desk.engine.append("/in/a", b"y")
    desk.run(lambda: desk.parts.working.succeed(attempt, desk.engine.now_ms, is_done=True))
    assert desk.links() == {"/in/a": (1, False)}
    assert desk.read().subscription.generation == 2


def test_members_survive(desk: Desk, meanwhile: Meanwhile) -> None:
    """S1: explicit members come and go; one that the glob matches stays."""
    desk.engine.create("/in/both", b"123")
    desk.engine.create("/out/only", b"45")
    desk.pull()
    desk.run(lambda: desk.parts.registry.add_members(desk.key, ("/in/both", "/out/only", "/out/later")))
    meanwhile()
    assert desk.links() == {"/in/both": (3, True), "/out/only": (2, True), "/out/later": (0, True)}
    desk.engine.create("/out/later", b"x")
    meanwhile()
    desk.expect_events([1])
    assert desk.events()[0]["stream"] == "out/later"
    for name in ("/in/both", "/out/only"):
        desk.run(lambda name=name: desk.parts.registry.remove_member(desk.key, name))
    meanwhile()
    assert desk.links() == {"/in/both": (3, False), "/out/later": (0, True)}
    desk.engine.append("/out/only", b"6")
    assert "/out/only" not in desk.links()


@pytest.mark.parametrize("ends", ["deleted", "expired", "with others"])
def test_a_stream_that_ends_and_comes_again_begins_anew(desk: Desk, meanwhile: Meanwhile, ends: str) -> None:
    """S1: the cursor of a stream is not that of another one of its name."""
    desk.pull(streams=["out/named"])
    for name in ("/in/a", "/out/named"):
        desk.engine.create(name, b"long content", lifetime=Lifetime(ttl_s=5))
    claimed = desk.claim()
    desk.settle(claimed, {"/in/a": 12, "/out/named": 12})
    meanwhile()
    if ends == "deleted":
        desk.engine.delete("/in/a")
        desk.engine.delete("/out/named")
    elif ends == "expired":
        desk.engine.now_ms += 5001
        desk.engine.expire()
    else:
        desk.engine.delete_some("/in/")
        desk.engine.delete_some("/out/")
    meanwhile()
    assert desk.links() == {"/out/named": (0, True)}
    desk.engine.create("/in/a", b"new")
    desk.engine.create("/out/named", b"new")
    meanwhile()
    assert desk.links() == {"/out/named": (0, True), "/in/a": (0, False)}
    assert isinstance(desk.claim(), Claimed)


def test_deleting_ends_everything(desk: Desk, meanwhile: Meanwhile) -> None:
    """S1: a worker's late request fails, and the id can be used anew."""
    desk.pull()
    desk.engine.create("/in/a", b"x")
    claimed = desk.claim()
    desk.run(lambda: desk.parts.registry.delete(desk.key))
    meanwhile()
    assert isinstance(desk.read(), Unknown)
    assert isinstance(desk.settle(claimed, {"/in/a": 1}), Unknown)
    assert isinstance(desk.pull(lease_ttl_ms=5000), Registered)
    meanwhile()
    assert isinstance(desk.settle(claimed, {"/in/a": 1}), wakes.Fenced)
    assert desk.links() == {"/in/a": (1, False)}


def test_the_same_again_is_confirmed_and_anything_else_is_not(desk: Desk, meanwhile: Meanwhile) -> None:
    """S1."""
    assert desk.pull(streams=["b", "a"]).is_new
    meanwhile()
    assert not desk.pull(streams=["a", "/b", "a"]).is_new
    assert isinstance(desk.pull(streams=["a"]), Differs)


def test_keys_survive(desk: Desk, meanwhile: Meanwhile) -> None:
    """S1, S2: a rotated key stays published for a while."""
    desk.pull()
    meanwhile()
    new = SigningKey(b"n" * 32, b"m" * 32)
    desk.run(lambda: desk.parts.registry.rotate_keys(new, KEYS, desk.engine.now_ms))
    meanwhile()
    keys = desk.parts.keys
    assert keys.token_key == KEYS.token_key
    assert [key.public for key in published(keys, desk.engine.now_ms)] == [b"m" * 32, b"q" * 32]
    assert keys.signing[1].private == b""
    assert [key.public for key in published(keys, desk.engine.now_ms + 3_600_000)] == [b"m" * 32]


def test_a_wake_stream_that_is_missing_is_tried_again(desk: Desk, meanwhile: Meanwhile) -> None:
    """S1."""
    desk.put(type="pull-wake", pattern="in/**", wake_stream="wake")
    desk.parts.waking.chance = lambda: 0.5
    desk.engine.create("/in/a", b"x")
    meanwhile()
    state = desk.read().subscription
    assert (state.attempts, state.is_failing) == (1, True)
    desk.engine.create("/wake", content_type=JSON)
    desk.engine.now_ms += 1000
    desk.engine.expire()
    desk.expect_events([1])
    assert not desk.read().subscription.is_failing


def test_many_streams_take_no_more_than_what_is_pending(desk: Desk) -> None:
    """S1: cursors of streams with nothing pending are dropped, oldest first, and nothing is lost by that."""
    for number in range(MAX_IDLE + 5):
        desk.engine.create(f"/in/{number:05d}", b"x")
    desk.pull()
    entry = desk.parts.entries[desk.key]
    assert len(entry.members.links) <= MAX_IDLE + 64
    last = f"/in/{MAX_IDLE + 4:05d}"
    desk.engine.append(last, b"y")
    claimed = desk.claim()
    assert [one.name for one in claimed.shown.streams if one.is_pending] == [last]
    assert entry.members.links[last].acked == 1
    assert desk.settle(claimed, {last: 2}) == Settled(next_wake=False)
    assert len(entry.members.links) <= MAX_IDLE + 1
