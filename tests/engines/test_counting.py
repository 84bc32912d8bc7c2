"""How many streams there are: for metrics, whatever ends them, and after a restart or a crash."""

from collections.abc import Callable

import pytest

from engines.driving import Engine
from millstream.protocol.expiry import Lifetime

AGAIN: dict[str, Callable[[Engine], None]] = {
    "running": lambda _engine: None,
    "restarted": Engine.restart,
    "crashed": Engine.crash,
}


@pytest.mark.parametrize("again", AGAIN)
def test_streams_are_counted_from_their_creation_until_nothing_needs_them(engine: Engine, again: str) -> None:
    def count() -> int:
        AGAIN[again](engine)
        return engine.store.count_streams()

    assert count() == 0
    engine.create("/a", b"x")
    engine.create("/a", b"x")
    engine.create("/b", lifetime=Lifetime(ttl_s=10))
    assert count() == 2
    engine.fork("/fork", "/a")
    engine.delete("/a")
    assert count() == 3, "its fork needs it"
    engine.delete("/fork")
    assert count() == 1
    engine.now_ms += 10_000
    engine.expire()
    assert count() == 0
    engine.create("/a", b"y")
    assert count() == 1
