"""Who waits for which stream."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from millstream.server.live.hub import Hub


class Reader:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


async def until(is_true: Callable[[], bool]) -> None:
    """Wait for what a pause between two passes delays."""
    async with asyncio.timeout(30):
        while not is_true():  # noqa: ASYNC110  readers have no event
            await asyncio.sleep(0.001)


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_only_the_readers_of_a_stream_are_woken_and_once_for_a_burst() -> None:
    async def main() -> None:
        hub = Hub()
        readers = {name: [Reader(), Reader()] for name in ("/a", "/b", "/c")}
        for name, waiting in readers.items():
            for reader in waiting:
                hub.watch(name, reader)
        for _ in range(5):
            hub.changed("/a")
            hub.changed("/b")
        hub.changed("/nobody")
        assert all(reader.woken == 0 for waiting in readers.values() for reader in waiting)
        await turn()
        woken = {name: [reader.woken for reader in waiting] for name, waiting in readers.items()}
        assert woken == {"/a": [1, 1], "/b": [1, 1], "/c": [0, 0]}
        hub.changed("/a")
        await turn()
        assert [reader.woken for reader in readers["/a"]] == [2, 2]

    asyncio.run(main())


def test_whoever_stops_watching_is_left_alone_and_leaves_nothing_behind() -> None:
    async def main() -> None:
        hub, reader, other = Hub(), Reader(), Reader()
        hub.watch("/a", reader)
        hub.watch("/a", other)
        hub.changed("/a")
        hub.unwatch("/a", reader)
        hub.unwatch("/a", reader)
        await turn()
        assert (reader.woken, other.woken) == (0, 1)
        hub.unwatch("/a", other)
        assert not hub.readers

    asyncio.run(main())


def test_a_reader_may_stop_watching_while_it_is_woken() -> None:
    async def main() -> None:
        hub = Hub()

        class Leaving(Reader):
            def wake(self) -> None:
                super().wake()
                for reader in readers:
                    hub.unwatch("/a", reader)

        readers = [Leaving() for _ in range(3)]
        for reader in readers:
            hub.watch("/a", reader)
        hub.changed("/a")
        await turn()
        assert not hub.readers

    asyncio.run(main())


def slices_of(hub: Hub, name: str, readers: list[Reader]) -> list[int]:
    """Change a stream, and count the readers that each following turn wakes, until none does."""
    counts = []

    async def main() -> None:
        for reader in readers:
            hub.watch(name, reader)
        hub.changed(name)
        while sum(reader.woken for reader in readers) < len(readers):
            before = sum(reader.woken for reader in readers)
            await asyncio.sleep(0)
            counts.append(sum(reader.woken for reader in readers) - before)

    asyncio.run(main())
    return [count for count in counts if count]


def test_up_to_sixteen_readers_are_woken_together() -> None:
    """They are at the same position, and share what they are sent."""
    assert slices_of(Hub(), "/a", [Reader() for _ in range(16)]) == [16]


@pytest.mark.parametrize(("readers", "slices"), [(17, 2), (100, 7), (1000, 63), (10_000, 64)])
def test_many_readers_are_woken_in_slices_of_a_limited_number(readers: int, slices: int) -> None:
    """Appends have their turn between two slices, and a pass takes a limited number of turns."""
    found = slices_of(Hub(), "/a", [Reader() for _ in range(readers)])
    assert len(found) == slices
    assert all(earlier >= later for earlier, later in pairwise(found))


def test_all_changes_during_a_pass_wake_each_reader_once_more() -> None:
    """Whoever is woken late finds all that was appended until then; who was woken early is woken again."""

    async def main() -> None:
        hub, readers = Hub(), [Reader() for _ in range(100)]
        for reader in readers:
            hub.watch("/a", reader)
        hub.changed("/a")
        await asyncio.sleep(0)
        woken_early = [reader for reader in readers if reader.woken]
        assert 0 < len(woken_early) < len(readers)
        for _ in range(5):
            hub.changed("/a")
        await until(lambda: all(reader.woken == 2 for reader in readers))

    asyncio.run(main())


def test_a_stream_with_few_readers_does_not_wait_for_one_with_many() -> None:
    async def main() -> None:
        hub, crowd, lone = Hub(), [Reader() for _ in range(1000)], Reader()
        for reader in crowd:
            hub.watch("/many", reader)
        hub.watch("/few", lone)
        hub.changed("/many")
        hub.changed("/few")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert lone.woken == 1
        assert sum(reader.woken for reader in crowd) <= 32

    asyncio.run(main())


def test_a_reader_that_fails_does_not_keep_the_others_asleep(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Reader):
        def wake(self) -> None:
            super().wake()
            raise ValueError("broken")

    readers: list[Reader] = [Failing() if number % 10 == 0 else Reader() for number in range(40)]
    slices_of(Hub(), "/a", readers)
    assert all(reader.woken == 1 for reader in readers)
    assert "a reader could not be woken" in caplog.text


def test_a_reader_that_comes_during_a_pass_is_woken_by_the_next_change() -> None:
    async def main() -> None:
        hub, late = Hub(), Reader()
        for _ in range(40):
            hub.watch("/a", Reader())
        hub.changed("/a")
        await asyncio.sleep(0)
        hub.watch("/a", late)
        hub.changed("/a")
        await until(lambda: late.woken == 1)

    asyncio.run(main())


@pytest.mark.parametrize(("each_s", "pause_s"), [(0.00001, 0.001), (0.001, 0.01)])
def test_a_stream_that_changes_during_a_pass_pauses_as_long_as_it_took(each_s: float, pause_s: float) -> None:
    """Messages gather meanwhile; the pause has a limit, and other streams do not wait for it."""

    async def main() -> None:
        now_s = 0.0
        pauses: list[float] = []

        class Slow(Reader):
            def wake(self) -> None:
                nonlocal now_s
                super().wake()
                now_s += each_s

        hub, readers, other = Hub(lambda: now_s), [Slow() for _ in range(116)], Reader()
        loop = asyncio.get_running_loop()
        loop.call_later = lambda delay_s, *_call, **_options: pauses.append(delay_s)  # type: ignore
        for reader in readers:
            hub.watch("/a", reader)
        hub.watch("/b", other)
        hub.changed("/a")
        await asyncio.sleep(0)
        hub.changed("/a")
        for _ in range(20):  # more turns than the pass has
            await asyncio.sleep(0)
        assert [reader.woken for reader in readers] == [1] * len(readers)
        assert pauses == [pytest.approx(pause_s, rel=0.2)]
        hub.changed("/a")
        hub.changed("/b")
        await turn()
        assert (other.woken, len(pauses)) == (1, 1)

    asyncio.run(main())


def test_a_stream_that_did_not_change_during_a_pass_does_not_pause() -> None:
    async def main() -> None:
        hub, readers = Hub(), [Reader() for _ in range(100)]
        for reader in readers:
            hub.watch("/a", reader)
        for passes in range(1, 4):
            hub.changed("/a")
            for _ in range(20):
                await asyncio.sleep(0)
            assert [reader.woken for reader in readers] == [passes] * len(readers)

    asyncio.run(main())
