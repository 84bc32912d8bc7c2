"""Clients of the simulation that subscribe and are woken: workers, receivers, and those who add members.

What they are answered must hold: a cursor that was acknowledged, a claim, a subscription that was created
or deleted. The rows of all of it are part of the model, in the order of the log, and so are those that
appends and the ends of streams change (`expectations`). What workers may do is judged here, by what they
were answered: two never have the same generation, and who is fenced moves nothing.
"""

from typing import Any

import msgspec

from millstream.protocol.subscriptions.configurations import parse_configuration
from millstream.protocol.subscriptions.keys import Keys, SigningKey
from millstream.protocol.subscriptions.requests import Ack, SettleRequest
from millstream.protocol.subscriptions.tokens import Claim, read_claim
from millstream.store.pending import Pending
from millstream.store.subscriptions.working import Attempt, Claimed, Settled

from .expectations import Expectations
from .simulated_engine import Variant
from .simulated_world import World

KEYS = Keys(b"t" * 32, (SigningKey(b"p" * 32, b"q" * 32),))
PULLS, HOOKS = ("/p1", "/p2"), ("/h1", "/h2")
_PATTERNS = ("s*", "f*", "**", "s1")


class Subscribed(Variant):
    """The engine as it is, with clients of subscriptions."""

    subscriptions = True


class Subscribers:
    """Each asks for something, and knows what must come of it."""

    def __init__(self, world: World, expected: Expectations) -> None:
        self.world = world
        self.random = world.random
        self.expected = expected
        self.claims: list[tuple[Claim, dict[str, int]]] = []
        self.attempts: list[Attempt] = []
        self.generations: dict[tuple[str, int], str] = {}
        self._count = 0

    def step(self) -> None:
        """One of them does something."""
        subscriptions = self.world.store.subscriptions
        subscriptions.waking.new_id = self._new_id
        subscriptions.waking.chance = self.random.random
        chosen = self.random.choices(
            (self.create, self.delete, self.add, self.remove, self.claim, self.settle, self.begin, self.end),
            (6, 1, 3, 2, 9, 12, 9, 9),
        )
        chosen[0]()

    def _new_id(self) -> str:
        self._count += 1
        return f"w{self._count}"

    def _ask(self, what: str, found: Any, then: Any = None) -> None:
        """An answer means that everything it was decided on is durable."""
        lsn = self.expected.last_lsn()
        self.world.say(f"{what}: {lsn} {type(found).__name__}")

        def answered(decision: Any) -> None:
            if type(decision).__name__ in ("NoSpace", "StoreFailed", "Backlogged"):
                return
            if decision is not None:  # otherwise there was nothing to do, and nobody hears of it
                self.expected.note_seen(lsn)
            if then is not None:
                then(decision)

        if isinstance(found, Pending):
            self.expected.waiting = [*self.expected.waiting[-30:], found]
            found.then(answered)
        else:
            answered(found)

    def create(self) -> None:
        key = self.random.choice(PULLS + HOOKS)
        asked: dict[str, Any] = {"pattern": self.random.choice(_PATTERNS), "lease_ttl_ms": 1000}
        if self.random.random() < 0.3:
            asked["streams"] = [self.random.choice(self.expected.names)[1:]]
        if key in PULLS:
            # A wake stream that does not exist: its events are appends of nobody here.
            asked |= {"type": "pull-wake", "wake_stream": "wake"}
        else:
            asked |= {"type": "webhook", "webhook": {"url": "https://x.example/"}}
        configuration = parse_configuration(msgspec.json.encode(asked), "/")
        registry = self.world.store.subscriptions.registry
        now_ms = self.world.now_ms
        self._ask(f"subscribe {key}", registry.create(key[1:], "/", configuration, "http://h", KEYS, now_ms))

    def delete(self) -> None:
        key = self.random.choice(PULLS + HOOKS)
        self._ask(f"unsubscribe {key}", self.world.store.subscriptions.registry.delete(key))

    def add(self) -> None:
        key, name = self.random.choice(PULLS + HOOKS), self.random.choice(self.expected.names)
        self._ask(f"add {name} to {key}", self.world.store.subscriptions.registry.add_members(key, (name,)))

    def remove(self) -> None:
        key, name = self.random.choice(PULLS + HOOKS), self.random.choice(self.expected.names)
        registry = self.world.store.subscriptions.registry
        self._ask(f"remove {name} of {key}", registry.remove_member(key, name))

    def claim(self) -> None:
        key = self.random.choice(PULLS)
        working = self.world.store.subscriptions.working
        self._ask(f"claim {key}", working.claim(key, "w", self.world.now_ms), self._claimed)

    def _claimed(self, found: Any) -> None:
        if isinstance(found, Claimed):
            claim = read_claim(found.token, KEYS.token_key)
            assert claim is not None
            self._note_wake(claim)
            tails = {one.name: one.tail for one in found.shown.streams if one.is_pending and one.tail}
            self.claims = [*self.claims[-8:], (claim, tails)]

    def _note_wake(self, claim: Claim) -> None:
        place = claim.subscription, claim.generation, self._created(claim.subscription)
        known = self.generations.setdefault(place, claim.wake_id)  # type: ignore[arg-type]
        self.world.check(known == claim.wake_id, f"generation {place} has two wakes")

    def _created(self, key: str) -> int:
        """A subscription that is deleted and made anew counts from the beginning."""
        entry = self.world.store.subscriptions.entries.get(key)
        return entry.state.created_ms if entry is not None else 0

    def settle(self) -> None:
        """A worker acknowledges, gives back, or only says that it lives; perhaps too late, perhaps twice."""
        if not self.claims:
            return
        claim, tails = self.random.choice(self.claims)
        key = claim.subscription
        entry = self.world.store.subscriptions.entries.get(key)
        wake = entry.state.wake if entry is not None else None
        is_current = wake is not None and wake.id == claim.wake_id
        before = dict(entry.members.links) if entry is not None else {}
        action = self.random.choice(("ack", "ack", "release"))
        acks = tuple(Ack(name, tail) for name, tail in tails.items() if self.random.random() < 0.7)
        request = SettleRequest(claim.wake_id, claim.generation, acks, self.random.random() < 0.7)
        working = self.world.store.subscriptions.working
        found = working.settle(key, action, claim, request, self.world.now_ms)
        if entry is not None:
            links = entry.members.links
            went_back = [name for name in before if name in links and links[name].acked < before[name].acked]
            self.world.check(not went_back, f"{key}: the cursors of {went_back} went back")
            self.world.check(is_current or links == before, f"{key}: a fenced worker moved a cursor")

        def answered(decision: Any) -> None:
            self.world.check(is_current or not isinstance(decision, Settled), f"{key}: nobody was fenced")

        self._ask(f"{action} {key} {claim.generation}", found, answered)

    def begin(self) -> None:
        key = self.random.choice(HOOKS)
        working = self.world.store.subscriptions.working
        self._ask(f"attempt {key}", working.begin_attempt(key, self.world.now_ms), self._begun)

    def _begun(self, found: Any) -> None:
        if isinstance(found, Attempt):
            self.attempts = [*self.attempts[-8:], found]
            body = msgspec.json.decode(found.body)
            self._note_wake(Claim(found.key, body["generation"], found.wake_id))

    def end(self) -> None:
        """A receiver answers, or does not; perhaps the process that has asked is gone."""
        if not self.attempts:
            return
        attempt = self.attempts.pop(self.random.randrange(len(self.attempts)))
        working, now_ms = self.world.store.subscriptions.working, self.world.now_ms
        if self.random.random() < 0.4:
            self._ask(f"failed {attempt.key}", working.fail(attempt, "no", now_ms))
        else:
            is_done = self.random.random() < 0.7
            self._ask(f"delivered {attempt.key}", working.succeed(attempt, now_ms, is_done=is_done))
