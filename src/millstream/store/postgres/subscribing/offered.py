"""Subscriptions as a store offers them: every request is a round, and so is what is due by time.

Which requests there are, and what they do, is in `store.subscriptions`; here is what each of them needs.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from millstream.protocol.subscriptions.configurations import Configuration
from millstream.protocol.subscriptions.keys import Keys, SigningKey
from millstream.protocol.subscriptions.requests import SettleRequest
from millstream.protocol.subscriptions.tokens import Claim
from millstream.store.pending import Pending
from millstream.store.postgres.connections import LOST, Database, UnreachableError
from millstream.store.postgres.subscribing import tables
from millstream.store.postgres.subscribing.needs import Needs
from millstream.store.postgres.subscribing.rounds import SubscriptionRounds
from millstream.store.subscriptions.entries import Entry
from millstream.store.subscriptions.registry import MayRead
from millstream.store.subscriptions.roster import Roster
from millstream.store.subscriptions.subscriptions import Subscriptions
from millstream.store.subscriptions.working import Attempt

_LOOK_S: Final = 1.0
_SHOWN_AT_ONCE: Final = 1_000


class SharedSubscriptions:
    """The subscriptions of all servers, from this one."""

    def __init__(self, database: Database, rounds: SubscriptionRounds) -> None:
        self._database = database
        self._rounds = rounds
        self._parts = rounds.table.subscriptions
        self.waking = self._parts.waking
        self.registry = SharedRegistry(self._parts, self._submit)
        self.working = SharedWorking(rounds, self._submit)
        self._looked_s = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._is_asked = False
        rounds.on_begin = self._begin

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Those that this server knows of, by key."""
        return self._parts.entries

    @property
    def keys(self) -> Keys | None:
        """The keys of the store, if it has any yet."""
        return self._parts.keys

    @property
    def failing(self) -> int:
        """How many subscriptions had a failed attempt last."""
        return self._parts.failing

    def _submit(self, decide: Callable[[Subscriptions], Any], needs: Needs) -> Pending[Any]:
        parts = self._parts
        return self._rounds.submit((), lambda _table: decide(parts), is_exclusive=True, needs=needs)

    # -- What is due ---------------------------------------------------------------------------------

    def note_time(self, now_ms: int) -> None:
        """Take in what time it is."""
        self._rounds.now_ms = now_ms

    def hear(self) -> None:
        """Take in that streams or subscriptions have changed somewhere."""
        if self._rounds.is_leading and (self.entries or not self._rounds.is_known):
            self._ask()

    def tick(self, now_ms: int) -> None:
        """Do what is due; look now and then whether somebody has to."""
        self._rounds.now_ms = now_ms
        loop = asyncio.get_running_loop()
        is_due = self._parts.roster.timers.due(now_ms) or self.waking.is_set_back(now_ms)
        if self._rounds.is_leading and is_due:
            self._ask()
        elif loop.time() - self._looked_s >= _LOOK_S and (self._looking is None or self._looking.done()):
            self._looked_s = loop.time()
            self._looking = loop.create_task(self._look())

    async def _look(self) -> None:
        server = self._rounds.server
        try:
            state = await self._database.ask(lambda connection: tables.read_state(connection, server))
        except UnreachableError:
            return  # the next look tries again
        is_idle = self._rounds.is_current(state.version) and not self.entries and not state.has_changes
        if not is_idle and (state.is_mine or state.is_over):
            self._ask()

    def _ask(self) -> None:
        """Have a round do what is due, unless one is about to."""
        if not self._is_asked:
            self._is_asked = True
            rounds = self._rounds
            needs = Needs(None, does_due=True, delivers=True)
            self._submit(lambda parts: parts.waking.tick(rounds.now_ms), needs).then(self._go_on)

    def _begin(self) -> None:
        self._is_asked = False

    def _go_on(self, has_more: object) -> None:
        if has_more is True:
            self._ask()

    # -- Opening and closing -------------------------------------------------------------------------

    async def open(self) -> None:
        """Load what there is."""
        await self._submit(lambda _parts: None, Needs(None))

    async def finish(self) -> None:
        """Wait for what is under way."""
        if self._looking is not None:
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._rounds.finish()

    async def close(self) -> None:
        """Let another server deliver."""
        await self.finish()
        if self._rounds.is_leading:
            try:
                async with self._database.connection() as connection:
                    await tables.release(connection, self._rounds.server)
            except LOST:
                return  # it ends by itself


Submit = Callable[[Callable[[Subscriptions], Any], Needs], Pending[Any]]


class SharedRegistry:
    """Creates and deletes subscriptions."""

    def __init__(self, parts: Subscriptions, submit: Submit) -> None:
        self._parts = parts
        self._submit = submit

    @property
    def max_subscriptions(self) -> int:
        """How many there may be."""
        return self._parts.registry.max_subscriptions

    @max_subscriptions.setter
    def max_subscriptions(self, most: int) -> None:
        self._parts.registry.max_subscriptions = most

    def create(
        self, id: str, root: str, configuration: Configuration, base_url: str, keys: Keys, now_ms: int
    ) -> Pending[Any]:
        """Create a subscription, or confirm that it is there; `keys` are for a store that has none."""
        names, pattern = configuration.streams, configuration.pattern
        return self._submit(
            lambda parts: parts.registry.create(id, root, configuration, base_url, keys, now_ms),
            Needs(now_ms, root + id, names=names, pattern=pattern, adds=True),
        )

    def read(self, key: str) -> Pending[Any]:
        """Show a subscription."""
        return self._submit(lambda parts: parts.registry.read(key), Needs(None, key))

    def list(self, after: str, limit: int, may_read: MayRead) -> Pending[Any]:
        """List subscriptions in the order of their keys, beginning after one."""

        def listed(roster: Roster) -> Iterable[str]:
            keys = sorted(key for key in roster.entries if key > after)[:_SHOWN_AT_ONCE]
            return [key for key in keys if may_read(roster.entries[key].state)][:limit]

        return self._submit(
            lambda parts: parts.registry.list(after, limit, may_read), Needs(None, listed=listed)
        )

    def delete(self, key: str) -> Pending[Any]:
        """Delete a subscription; one that is not there counts as deleted."""
        return self._submit(lambda parts: parts.registry.delete(key), Needs(None))

    def add_members(self, key: str, names: tuple[str, ...]) -> Pending[Any]:
        """Link streams explicitly, at their tails."""
        return self._submit(
            lambda parts: parts.registry.add_members(key, names), Needs(None, key, names=names)
        )

    def remove_member(self, key: str, name: str) -> Pending[Any]:
        """Remove an explicit link; a stream that the pattern matches stays."""
        return self._submit(lambda parts: parts.registry.remove_member(key, name), Needs(None, key))

    def offer_keys(self, keys: Keys) -> Pending[Any]:
        """Give the keys of the store; those that are offered become them if it has none."""
        return self._submit(lambda parts: parts.registry.offer_keys(keys), Needs(None))

    def rotate_keys(self, new: SigningKey, keys: Keys, now_ms: int) -> Pending[Any]:
        """Let another key sign."""
        return self._submit(lambda parts: parts.registry.rotate_keys(new, keys, now_ms), Needs(now_ms))


class SharedWorking:
    """What workers do, and attempts to deliver."""

    def __init__(self, rounds: SubscriptionRounds, submit: Submit) -> None:
        self._rounds = rounds
        self._submit = submit

    def claim(self, key: str, worker: str, now_ms: int) -> Pending[Any]:
        """Give a worker the lease, or say what is in the way."""
        return self._submit(lambda parts: parts.working.claim(key, worker, now_ms), Needs(now_ms, key))

    def settle(
        self, key: str, action: str, claim: Claim, request: SettleRequest, now_ms: int
    ) -> Pending[Any]:
        """Acknowledge, extend the lease, or give it back."""
        names = tuple(ack.stream for ack in request.acks)
        return self._submit(
            lambda parts: parts.working.settle(key, action, claim, request, now_ms),
            Needs(now_ms, key, may_wake=True, names=names),
        )

    def retry(self, key: str, now_ms: int) -> Pending[Any]:
        """Let an attempt that waits for its time be made now."""
        return self._submit(lambda parts: parts.working.retry(key, now_ms), Needs(now_ms, key, may_wake=True))

    def begin_attempt(self, key: str, now_ms: int) -> Pending[Any]:
        """Begin to deliver a webhook that is due; None when there is nothing to deliver."""
        begun = self._submit(
            lambda parts: parts.working.begin_attempt(key, now_ms), Needs(now_ms, key, delivers=True)
        )
        begun.then(self._note_attempt)
        return begun

    def _note_attempt(self, begun: object) -> None:
        if isinstance(begun, Attempt):
            self._rounds.attempts[begun.key] = begun.wake_id

    def succeed(self, attempt: Attempt, now_ms: int, *, is_done: bool) -> Pending[Any]:
        """Take in that a receiver has a webhook."""
        return self._end_attempt(
            attempt, now_ms, lambda parts: parts.working.succeed(attempt, now_ms, is_done=is_done)
        )

    def fail(self, attempt: Attempt, error: str, now_ms: int) -> Pending[Any]:
        """Take in that a webhook could not be delivered."""
        return self._end_attempt(attempt, now_ms, lambda parts: parts.working.fail(attempt, error, now_ms))

    def _end_attempt(
        self, attempt: Attempt, now_ms: int, decide: Callable[[Subscriptions], Any]
    ) -> Pending[Any]:
        self._rounds.attempts.pop(attempt.key, None)
        needs = Needs(now_ms, attempt.key, may_wake=True, names=tuple(attempt.tails), delivers=True)
        return self._submit(decide, needs)
