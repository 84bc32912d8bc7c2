"""Where bytes lie: what an engine names is what it would have given, and it names nothing that is gone."""

import os
import random

import pytest

from engines.driving import Engine, created
from millstream.protocol.retention import Retention

PIECE = 20_000  # more than a pack takes of a stream


def give_pieces(engine: Engine, name: str, count: int) -> None:
    dice = random.Random(name)
    for _ in range(count):
        engine.append(name, dice.randbytes(PIECE))


def stream_id(engine: Engine, name: str) -> int:
    return engine.chunk(name, max_bytes=1).stream_id


def located(engine: Engine, name: str, start: int, end: int) -> bytes:
    """Put a range together from files where the engine names them; otherwise from what it gives."""
    id, content, in_files = stream_id(engine, name), b"", 0
    while start < end:
        part = engine.store.locate(name, id, start, end)
        if part is not None:
            assert 0 < part.size <= end - start
            piece = os.pread(part.descriptor, part.size, part.position)
            assert len(piece) == part.size
            in_files += part.size
        else:
            piece = given(engine, name, start, min(end, start + PIECE // 3))
            assert piece is not None
        content, start = content + piece, start + len(piece)
    assert bool(in_files) == (engine.log is not None)
    return content


def given(engine: Engine, name: str, start: int, end: int) -> bytes | None:
    if engine.store.is_shared:  # what is not in memory is read
        return engine.chunk(name, start, max_bytes=end - start).data
    return engine.store.fetch(name, stream_id(engine, name), start, end)


def test_files_and_memory_make_the_whole(engine: Engine) -> None:
    engine.create("/s")
    give_pieces(engine, "/s", 10)
    engine.restart()  # with what is in files now
    give_pieces(engine, "/s", 10)
    for start, end in [(0, 20 * PIECE), (5, 10 * PIECE), (9 * PIECE + 1, 10 * PIECE + 1)]:
        assert located(engine, "/s", start, end) == given(engine, "/s", start, end)


def test_what_only_memory_has_is_nowhere(engine: Engine) -> None:
    engine.create("/s", b"young")
    assert engine.store.locate("/s", stream_id(engine, "/s"), 0, 5) is None


def test_a_fork_ends_where_its_ancestors_bytes_end(engine: Engine) -> None:
    engine.create("/s")
    give_pieces(engine, "/s", 4)
    engine.fork("/fork", "/s", 2 * PIECE)
    give_pieces(engine, "/fork", 2)
    engine.fork("/fork/fork", "/fork", PIECE)
    give_pieces(engine, "/fork/fork", 2)
    engine.restart()
    for name, end in [("/fork", 4 * PIECE), ("/fork/fork", 3 * PIECE)]:
        for start in (0, PIECE - 1, PIECE, 2 * PIECE + 1):
            assert located(engine, name, start, end) == given(engine, name, start, end)


def test_content_in_many_files_is_located_file_by_file(engine: Engine) -> None:
    engine.create("/s", retention=Retention(bytes=300_000))
    give_pieces(engine, "/s", 40)
    engine.restart()
    assert located(engine, "/s", 0, 40 * PIECE) == given(engine, "/s", 0, 40 * PIECE)


@pytest.mark.parametrize("ending", ["deleted", "made anew", "trimmed"])
def test_what_is_gone_is_nowhere(engine: Engine, ending: str) -> None:
    engine.create("/s", retention=Retention(bytes=PIECE))
    give_pieces(engine, "/s", 1)
    engine.restart()
    id = stream_id(engine, "/s")
    if ending == "trimmed":
        give_pieces(engine, "/s", 2)
        engine.expire()
        engine.until(lambda: engine.chunk("/s").start >= PIECE)
    else:
        engine.delete("/s")
        if ending == "made anew":
            created(engine.create("/s", b"other"))
            engine.restart()
    assert engine.store.locate("/s", id, 0, 100) is None
    assert engine.store.fetch("/s", id, 0, 100) is None
