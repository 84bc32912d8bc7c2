"""What streams in memory cost: the constants are close to what Python takes, and sums stay exact."""

import gc
import tracemalloc
from pathlib import Path

from crash.folders import opened
from millstream.protocol.content import Kind
from millstream.protocol.producers import ProducerState
from millstream.protocol.streams import Fork, Stream
from millstream.store.entries import StreamEntry
from millstream.store.log.cache.memory_use import ENTRY_BYTES, MemoryUse
from millstream.store.pieces import Pieces

COUNT = 3_000


def test_an_entry_takes_what_is_counted_for_it(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        for number in range(COUNT):
            data.create(f"/chat/{number:010}", body=b"x")
    with opened(tmp_path) as data:
        cache = data.engine.streams
        assert not cache.by_id
        gc.collect()
        tracemalloc.start()
        try:
            for number in range(COUNT):
                assert cache.find(f"/chat/{number:010}") is not None
            gc.collect()
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        counted = cache.memory.bytes
        assert cache.loads == COUNT
        assert counted / COUNT < 1200
        assert taken < counted < 1.2 * taken, (taken / COUNT, counted / COUNT)


def test_sums_return_to_nothing() -> None:
    memory = MemoryUse()
    source = entry(1, "/source")
    fork = entry(2, "/fork", source)
    memory.add(source)
    memory.add(fork)
    assert memory.bytes > 2 * ENTRY_BYTES
    assert memory.has_forks(1)
    without = memory.bytes
    fork.stream.producers = {b"p": ProducerState(0, 0, 0), b"q": ProducerState(0, 0, 0)}
    memory.recount(fork)
    memory.recount(fork)
    assert memory.bytes > without + 400
    fork.stream.producers = None
    memory.recount(fork)
    assert memory.bytes == without
    fork.stream.producers = {b"p": ProducerState(0, 0, 0)}
    memory.recount(fork)
    memory.remove(fork)
    assert not memory.has_forks(1)
    memory.remove(source)
    assert memory.bytes == 0


def entry(id: int, name: str, source: StreamEntry | None = None) -> StreamEntry:
    stream = Stream(id, name, b"text/plain", Kind.TEXT, 0)
    if source is not None:
        stream.fork = Fork(source.stream.id, source.stream.name, 0, 0, 0)
    return StreamEntry(stream, source, Pieces(0))
