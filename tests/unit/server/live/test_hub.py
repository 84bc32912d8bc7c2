"""Who waits for which stream."""

import asyncio

from millstream.server.live.hub import Hub


class Reader:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


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
