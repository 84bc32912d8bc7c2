"""Whose turn it is: webhooks that wait, by target, so that a slow target holds up nobody else.

        target a   s1 s2 s3     3 under way: as many as may be      not in the ring
        target b   s4           0 under way                         ring: b, c
        target c   s5 s6        1 under way

Targets take turns, whatever each has waiting, and none has more under way than `MAX_PER_TARGET`. A
subscription waits at most once; one that is due again while it is under way waits when it is not any more.
There are two lanes: what has failed before never takes the last slots from
what has not.
"""

from collections import Counter, deque
from typing import Final

MAX_PER_TARGET: Final = 32
"""Most webhooks to one host and port that are under way at once."""


class Lane:
    """Subscriptions that wait for their turn."""

    def __init__(self, under_way: Counter[str]) -> None:
        self._under_way = under_way
        self._waiting: dict[str, deque[str]] = {}
        self._ring: deque[str] = deque()
        self._in_ring: set[str] = set()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, target: str, key: str) -> None:
        """Let a subscription wait for its turn at a target."""
        self._waiting.setdefault(target, deque()).append(key)
        self.reconsider(target)

    def reconsider(self, target: str) -> None:
        """Put a target into the ring, if it has room and somebody waits for it."""
        has_room = self._under_way[target] < MAX_PER_TARGET
        if has_room and target in self._waiting and target not in self._in_ring:
            self._in_ring.add(target)
            self._ring.append(target)

    def take(self) -> tuple[str, str] | None:
        """Take whose turn it is: a target and a subscription, which is then under way."""
        while self._ring:
            target = self._ring.popleft()
            self._in_ring.discard(target)
            waiting = self._waiting.get(target)
            if waiting is None or self._under_way[target] >= MAX_PER_TARGET:
                continue
            key = waiting.popleft()
            if not waiting:
                del self._waiting[target]
            self._under_way[target] += 1
            self.reconsider(target)
            return target, key
        return None


class Lanes:
    """Everything that waits or is under way."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._targets: Counter[str] = Counter()
        self._fresh, self._failing = Lane(self._targets), Lane(self._targets)
        self._waiting: set[str] = set()
        self._retried: set[str] = set()  # of the failing lane, under way
        self._again: dict[str, tuple[str, bool]] = {}  # due once more while under way
        self.under_way: set[str] = set()

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._waiting)

    def add(self, target: str, key: str, *, is_failing: bool) -> None:
        """Let a subscription wait for its turn, unless it does; if it is under way, from its end on."""
        if key in self.under_way:
            self._again[key] = target, is_failing
        elif key not in self._waiting:
            self._waiting.add(key)
            (self._failing if is_failing else self._fresh).add(target, key)

    def take(self) -> tuple[str, str] | None:
        """Take whose turn it is; None when there is nobody, or no slot."""
        if len(self.under_way) >= self._slots:
            return None
        found = self._fresh.take()
        if found is None and len(self._retried) < max(1, self._slots // 2):
            found = self._failing.take()
            if found is not None:
                self._retried.add(found[1])
        if found is not None:
            self._waiting.discard(found[1])
            self.under_way.add(found[1])
        return found

    def finish(self, target: str, key: str) -> None:
        """Note that a subscription is under way no more."""
        self.under_way.discard(key)
        self._retried.discard(key)
        self._targets[target] -= 1
        if not self._targets[target]:
            del self._targets[target]
        self._fresh.reconsider(target)
        self._failing.reconsider(target)
        again = self._again.pop(key, None)
        if again is not None:
            self.add(again[0], key, is_failing=again[1])
