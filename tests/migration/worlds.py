"""Folders full of streams of every kind, made of a number, and what an engine answers about them."""

import random
from pathlib import Path
from typing import Any

import msgspec

from engines.driving import JSON, TEXT, Engine
from millstream.protocol.expiry import Lifetime
from millstream.protocol.lifecycle import Create
from millstream.protocol.origins import Last, Since
from millstream.protocol.producers import Stamp
from millstream.protocol.reads import Chunk
from millstream.protocol.retention import Retention
from millstream.protocol.streams import Stream
from millstream.store.postgres.opening import postgres_store

STREAMS = 14


class InSchema(Engine):
    """The engine on tables of a schema that other processes may use, too."""

    def __init__(self, url: str) -> None:
        self._url = url
        super().__init__("postgres", Path())

    def _start(self) -> None:
        self._open = lambda: postgres_store(self._url)
        super()._start()


def fill(engine: Engine, seed: int) -> None:
    """Make streams, forks of them, and all that can happen to both."""
    dice = random.Random(seed)
    names = [f"/s/{number}" for number in range(STREAMS)]
    for name in names:
        engine.now_ms += dice.randrange(1, 5000)
        _create(engine, dice, name)
    for step in range(240):
        engine.now_ms += dice.randrange(1, 3000)
        step_of(engine, dice, names)
        if step % 60 == 59:
            engine.expire()
            engine.checkpoint()
    engine.create("/empty", content_type=TEXT)
    engine.create("/done", b"all of it", closed=True)


def _create(engine: Engine, dice: random.Random, name: str) -> None:
    lifetime = dice.choice([Lifetime(), Lifetime(), Lifetime(ttl_s=10**6), _until(engine.now_ms + 10**9)])
    retention = dice.choice([Retention(), Retention(), Retention(bytes=5000), Retention(seconds=60)])
    attributes = dice.choice([{}, {"owner": "ö", "tier": 2}])
    kind = dice.choice([TEXT, JSON, b"application/octet-stream"])
    engine.create(name, content_type=kind, lifetime=lifetime, retention=retention, attributes=attributes)


def _until(time_ms: int) -> Lifetime:
    return Lifetime(expires_at=b"2030-01-31T12:00:00Z", expires_ms=time_ms)


def step_of(engine: Engine, dice: random.Random, names: list[str]) -> Any:
    """Do one thing, and give the answer."""
    name = dice.choice(names)
    found = engine.head(name)
    kind = found.content_type if isinstance(found, Stream) else TEXT
    choice = dice.randrange(100)
    if choice < 45:
        data = _data(dice, kind, dice.choice([1, 40, 40, 700, 20_000]))
        return engine.append(name, data, content_type=kind)
    if choice < 60:
        stamp = Stamp(b"p%d" % dice.randrange(3), dice.randrange(2), dice.randrange(4))
        return engine.append(name, _data(dice, kind, 30), content_type=kind, stamp=stamp)
    if choice < 65:
        seq = b"%08d" % (engine.now_ms // 1000)
        return engine.append(name, _data(dice, kind, 10), content_type=kind, seq=seq)
    if choice < 70:
        many = range(300)  # more than a page of an index
        return [engine.append(name, _data(dice, kind, 3), content_type=kind) for _ in many]
    if choice < 75:
        engine.stage(name, "a", _data(dice, kind, 300), content_type=kind)
        engine.stage(name, "b", _data(dice, kind, 30_000), content_type=kind)
        return engine.commit(name, "b", "a")
    if choice < 85:
        fork = f"{name}/fork{dice.randrange(3)}"
        found = engine.fork(
            fork, name, sub_offset=0, lifetime=dice.choice([Lifetime(), Lifetime(ttl_s=10**6)])
        )
        if isinstance(found, Create):
            names.append(fork)
        return found
    if choice < 91 and isinstance(found, Stream) and found.tail > found.start:
        chunk = engine.read(name, max_bytes=1 + (found.tail - found.start) // 2)
        return engine.trim(name, chunk.end) if isinstance(chunk, Chunk) else chunk
    if choice < 94:
        return engine.configure(name, attributes=f'{{"n":{dice.randrange(9)}}}', retain_bytes="9000")
    if choice < 97:
        return engine.append(name, closes=True, stamp=Stamp(b"p0", 9, 0))
    return engine.delete(name)


def _data(dice: random.Random, kind: bytes, size: int) -> bytes:
    if kind == JSON:
        return msgspec.json.encode([dice.randrange(10**12) for _ in range(1 + size // 12)])
    return dice.randbytes(size).hex().encode()[:size]


def observed(engine: Engine) -> dict[str, Any]:
    """Everything that readers can see of every stream."""
    found: dict[str, Any] = {}
    for stream in engine.listing(limit=1000).streams:
        head = engine.stream(stream.name)
        head.producers = head.staged = None  # an engine may have them loaded, or not
        if head.lifetime.is_sliding:
            head.deadline_ms = None  # to look at a stream renews it
        found[stream.name] = msgspec.to_builtins(head), head.incarnation, _pages(engine, head)
    return found


def _pages(engine: Engine, stream: Stream) -> list[Any]:
    pages: list[Any] = []
    offset = stream.start
    while True:
        chunk = engine.chunk(stream.name, offset, max_bytes=4000)
        pages.append((chunk.data, chunk.end, chunk.up_to_date, chunk.closed))
        offset = chunk.end
        if chunk.up_to_date:
            break
    timed = engine.read_from(stream.name, Since(stream.created_ms), times=True)
    return [*pages, _plain(timed), _plain(engine.read_from(stream.name, Last(3)))]


def _plain(answer: Any) -> Any:
    return msgspec.to_builtins(answer) if isinstance(answer, msgspec.Struct) else answer


def continued(engine: Engine, seed: int, names: list[str], now_ms: int) -> list[Any]:
    """Go on with an engine, and give its answers: retries of producers, forks, trims, deletions."""
    dice = random.Random(seed)
    engine.now_ms = now_ms
    names = sorted(names)
    answers: list[Any] = []
    for name in names:
        for producer in (b"p0", b"p1", b"p2"):
            for epoch in (0, 1):
                for seq in range(4):
                    stamp = Stamp(producer, epoch, seq)
                    answers.append(engine.append(name, b"1", content_type=_type(engine, name), stamp=stamp))
        answers.append(engine.append(name, closes=True, stamp=Stamp(b"p0", 9, 0)))
    for _ in range(80):
        engine.now_ms += 1000
        answers.append(step_of(engine, dice, names))
    engine.expire()
    return [_answer(answer) for answer in answers]


def _type(engine: Engine, name: str) -> bytes:
    found = engine.head(name)
    return found.content_type if isinstance(found, Stream) else TEXT


def _answer(answer: Any) -> Any:
    """Give what a client sees of an answer; new streams get ids by how many there were."""
    if isinstance(answer, list):
        return [_answer(one) for one in answer]
    if isinstance(answer, Create):
        return "created", answer.stream.tail, answer.stream.base
    return type(answer).__name__, getattr(answer, "tail", None)
