"""What clients ask for, drawn by dice that know the model: most of it makes sense, some does not."""

import json as json_text

from millstream.protocol import json_frames
from millstream.protocol.conditions import Condition
from millstream.protocol.expiry import Lifetime
from millstream.protocol.producers import Stamp
from millstream.protocol.retention import KEEP_ALL, Retention

from . import model as plain
from .expectations import Expectations
from .simulated_world import World


class Requests:
    """The pieces that requests are made of."""

    def __init__(self, world: World, expected: Expectations) -> None:
        self.world = world
        self.random = world.random
        self.expected = expected

    def some_name(self) -> str:
        """A name, of a stream that is there rather than not."""
        there = sorted(self.expected.accepted.names)
        return self.random.choice(there if there and self.random.random() < 0.9 else self.expected.names)

    def stamp(self, entry: plain.Entry | None) -> Stamp:
        id = self.random.choice((b"p", b"q"))
        last = entry.producers.get(id) if entry is not None else None
        dice = self.random.random()
        if last is None:
            return Stamp(id, 0, 0 if dice < 0.9 else 1)
        if dice < 0.8:
            return Stamp(id, last[1], last[2] + 1)
        if dice < 0.9:
            return Stamp(id, last[1] + 1, 0)
        return Stamp(id, max(0, last[1] - self.random.randint(0, 1)), self.random.randint(0, last[2] + 2))

    def condition(self, entry: plain.Entry | None) -> Condition | None:
        """Where a writer expects the tail (X6): mostly nowhere, else where it is or has been."""
        if entry is None or self.random.random() < 0.7:
            return None
        tails = [tail for tail, _, _ in entry.history]
        return Condition(entry.tail if self.random.random() < 0.6 else self.random.choice(tails), None)

    def data(self, json: bool) -> bytes:
        size = self.random.choice((1, 8, 30, 200, 600)) + self.random.randint(0, 7)
        if not json:
            return self.random.randbytes(size)
        count = self.random.randint(1, 4)
        messages = [self.random.randbytes(size // (2 * count)).hex() for _ in range(count)]
        return json_frames.frame(json_text.dumps(messages).encode())

    def lifetime(self) -> Lifetime:
        dice = self.random.random()
        if dice < 0.15:
            return Lifetime(ttl_s=self.random.randint(2, 40))
        if dice < 0.22:
            return Lifetime(expires_at=b"x", expires_ms=self.world.now_ms + self.random.randint(1000, 60_000))
        return Lifetime()

    def retention(self) -> Retention:
        if self.random.random() < 0.5:
            return KEEP_ALL
        sizes, ages = (None, 100, 700, 3000), (None, None, 2, 10, 40)
        return Retention(self.random.choice(sizes), self.random.choice(ages))
