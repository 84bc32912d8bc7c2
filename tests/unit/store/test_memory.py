"""What only the engine in memory promises."""

import gc
import sys
from pathlib import Path

import pytest

from engines.driving import Engine
from millstream.protocol.expiry import Lifetime


@pytest.mark.parametrize("lifetime", [Lifetime(), Lifetime(ttl_s=86_400)], ids=["for ever", "a day"])
def test_a_deleted_stream_lets_go_of_its_bytes(tmp_path: Path, lifetime: Lifetime) -> None:
    """F2: at once, not when its time would have been over."""
    data = bytes(range(256))
    with Engine("memory", tmp_path) as engine:
        engine.create("/s", lifetime=lifetime)
        holders = sys.getrefcount(data)
        engine.append("/s", data)
        assert sys.getrefcount(data) > holders
        engine.delete("/s")
        gc.collect()
        assert sys.getrefcount(data) == holders


def test_streams_of_two_runs_are_never_the_same(tmp_path: Path) -> None:
    """G3: an entity tag of another run must not match."""
    ids = set()
    for _ in range(8):
        with Engine("memory", tmp_path) as engine:
            engine.create("/s")
            ids.add(engine.stream("/s").id)
    assert len(ids) == 8
