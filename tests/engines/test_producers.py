"""How many producers a stream remembers, and that a forgotten one is refused: rules R2, R4, H4."""

import pytest

from engines.driving import Engine
from millstream.protocol.producers import Fenced, Limits, Stamp, TooManyProducers
from millstream.protocol.streams import Append, Duplicate
from millstream.store.quotas import Quotas

LIMIT = 3
IDLE_MS = 1_000


@pytest.fixture
def limited(engine: Engine) -> Engine:
    limit(engine)
    engine.create("/s")
    return engine


def limit(engine: Engine) -> None:
    engine.store.quotas = Quotas(producers=Limits(LIMIT, IDLE_MS))


def restart(engine: Engine) -> None:
    engine.restart()
    limit(engine)


def crash(engine: Engine) -> None:
    engine.crash()
    limit(engine)


def send(engine: Engine, id: bytes, epoch: int = 0, seq: int = 0) -> object:
    return engine.append("/s", b"x", stamp=Stamp(id, epoch, seq))


def fill(engine: Engine) -> None:
    for number in range(LIMIT):
        assert isinstance(send(engine, b"%d" % number), Append)


def test_a_producer_too_many_is_refused_while_all_are_in_use(limited: Engine) -> None:
    fill(limited)
    assert send(limited, b"new") == TooManyProducers(LIMIT)
    assert isinstance(send(limited, b"0", 0, 1), Append), "those that are known go on"
    assert limited.content("/s") == b"x" * (LIMIT + 1)


@pytest.mark.parametrize("again", [lambda _engine: None, restart, crash, Engine.checkpoint])
def test_a_forgotten_producer_is_refused_and_never_doubled(limited: Engine, again: object) -> None:
    fill(limited)
    limited.now_ms += IDLE_MS
    assert isinstance(send(limited, b"1", 0, 1), Append)
    assert isinstance(send(limited, b"new"), Append)  # and 0 is forgotten: it was idle for longest
    again(limited)  # type: ignore[operator]
    assert send(limited, b"0") == Fenced(0)
    assert send(limited, b"0", 0, 1) == Fenced(0)
    assert isinstance(send(limited, b"1", 0, 1), Duplicate)
    assert isinstance(send(limited, b"new"), Duplicate)
    assert isinstance(send(limited, b"2"), Duplicate)
    assert limited.content("/s") == b"x" * (LIMIT + 2)


def test_a_forgotten_producer_comes_back_with_a_higher_epoch(limited: Engine) -> None:
    fill(limited)
    limited.now_ms += IDLE_MS
    assert isinstance(send(limited, b"new"), Append)
    limited.checkpoint()
    assert isinstance(send(limited, b"0", 1), Append)
    crash(limited)
    assert isinstance(send(limited, b"0", 1), Duplicate)
    assert send(limited, b"1") == Fenced(0), "it was forgotten for 0"


def test_producers_are_kept_over_restarts_and_checkpoints(limited: Engine) -> None:
    for seq in range(3):
        for id in (b"a", b"b"):
            assert isinstance(send(limited, id, 0, seq), Append)
        limited.checkpoint()
    restart(limited)
    assert isinstance(send(limited, b"a", 0, 2), Duplicate)
    assert isinstance(send(limited, b"b", 0, 3), Append)
    crash(limited)
    assert isinstance(send(limited, b"b", 0, 3), Duplicate)
    assert isinstance(send(limited, b"a", 0, 3), Append)
    limited.delete("/s")
    limited.create("/s")
    restart(limited)
    assert isinstance(send(limited, b"a", 0, 0), Append), "another stream knows nothing of them"


def test_a_commit_of_parts_counts_as_any_append(limited: Engine) -> None:
    fill(limited)
    limited.stage("/s", "part", b"y")
    assert limited.commit("/s", "part", stamp=Stamp(b"new", 0, 0)) == TooManyProducers(LIMIT)
    limited.now_ms += IDLE_MS
    limited.commit("/s", "part", stamp=Stamp(b"new", 0, 0))
    crash(limited)
    assert send(limited, b"0") == Fenced(0)
    assert isinstance(limited.commit("/s", "part", stamp=Stamp(b"new", 0, 0)), Duplicate)
    assert limited.content("/s") == b"xxxy"
