"""The run of a migration: look what is in the way, copy stream by stream, verify, report.

        begin       the destination notes from where; a run before this one may have been killed
        look        every stream of the source: is one of that name there, and is it another one? Then nothing
                    is copied
        copy        each stream: go on where the destination ends, give it its state, commit
        verify      read it from the destination again, and compare digests
        end         subscriptions; the destination is complete, and servers may start on it

Streams come one after the other, each in small batches, and many small streams are committed together.
"""

from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from millstream.migration import records
from millstream.migration.ends import Destination, Source
from millstream.migration.records import Digest
from millstream.protocol.streams import Stream
from millstream.store.base import StoreError

NO_PARTS = "staged parts that were not committed: their writers stage them again"
OTHER_IDS = "incarnations and entity tags, where another stream of the destination has the same number"
_NAMED = 5


class Verified(msgspec.Struct, frozen=True):
    """A stream that is in the destination, and was compared."""

    name: str
    bytes: int
    tail: int
    sha256: str
    is_new: bool


class Report(msgspec.Struct):
    """What a migration did."""

    streams: int = 0
    copied: int = 0
    bytes: int = 0
    subscriptions: int = 0
    not_kept: Counter[str] = msgspec.field(default_factory=Counter)


class Progress(msgspec.Struct):
    """How far a migration is; each is called when something is done."""

    say: Callable[[str], None]
    copied: Callable[[int], None]
    verified: Callable[[Verified], None]


class _Written(msgspec.Struct, frozen=True):
    """A stream that was written or found, and what it has to be."""

    stream: Stream
    digest: Digest
    is_new: bool


async def migrate(source: Source, destination: Destination, progress: Progress) -> Report:
    """Move all streams of a source to a destination."""
    await source.open()
    try:
        await destination.open()
        try:
            return await _Migration(source, destination, progress).run()
        finally:
            await destination.close()
    finally:
        await source.close()


class _Migration:
    def __init__(self, source: Source, destination: Destination, progress: Progress) -> None:
        self._source = source
        self._destination = destination
        self._progress = progress
        self._report = Report()
        self._unverified: list[_Written] = []
        self._goes_on = False

    async def run(self) -> Report:
        """Do all of it."""
        source, destination = self._source, self._destination
        rows = await source.rows()
        there = await destination.rows()
        if any(there.get(key, value) != value for key, value in rows.items()):
            raise StoreError(f"{destination.name} has other subscriptions, or keys that sign other webhooks.")
        self._goes_on = await destination.is_begun(source.name)
        if not self._goes_on:
            await self._look()
            await destination.begin(source.name)
        total = await source.count()
        self._progress.say(f"copying {'streams' if total is None else f'{total} streams'}")
        async for stream in source.streams():
            await self._copy(stream)
            if destination.is_saved:
                await self._verify()
        await destination.flush()
        await self._verify()
        if rows:
            await destination.keep(rows)
            self._report.subscriptions = sum(key.startswith("s") for key in rows)
        await destination.end()
        self._report.not_kept.update(source.not_kept)
        return self._report

    # -- Before anything is written --------------------------------------------------------------

    async def _look(self) -> None:
        """Refuse a destination that has other streams under names of the source."""
        others: list[str] = []
        async for stream in self._source.streams():
            there = await self._destination.find(stream.name)
            if there is not None and not await self._is_same(stream, there):
                others.append(stream.name)
                if len(others) == _NAMED:
                    break
        if others:
            names = ", ".join(others[: _NAMED - 1]) + (" and others" if len(others) == _NAMED else "")
            raise StoreError(
                f"{self._destination.name} has other streams of the same names: {names}. "
                "Nothing was copied. Delete them there, or choose another destination."
            )

    async def _is_same(self, stream: Stream, there: Stream) -> bool:
        if self._source.is_exact:
            return records.is_same(stream, there)
        if stream.content_type != there.content_type or stream.start != there.start:
            return False
        digest = await self._digest(self._source, stream)
        return digest.of_bytes == (await self._digest(self._destination, there)).of_bytes

    async def _digest(self, end: Source, stream: Stream) -> Digest:
        digest = Digest(stream)
        async for batch in end.batches(stream, records.beginning(stream)[0]):
            digest.add(batch)
        return digest

    # -- Copying ---------------------------------------------------------------------------------

    async def _copy(self, stream: Stream) -> None:
        destination = self._destination
        there = await destination.find(stream.name)
        if there is not None and not self._may_use(stream, there):
            raise StoreError(
                f"{destination.name}: {stream.name} is not what it was when the migration began. Begin again "
                "with an empty destination."
            )
        source_id = 0
        if stream.fork is not None:
            above = await destination.find(stream.fork.source_name)
            source_id = above.id if above is not None else 0
        if there is None:
            id = await destination.free_id(stream.id)
            if stream.id and id != stream.id:
                self._report.not_kept[OTHER_IDS] += 1
        else:
            await destination.find(stream.name)  # it is the one that is written to from now on
            id = there.id
        if stream.staged is not None and stream.staged.parts:
            self._report.not_kept[NO_PARTS] += 1
        wanted = records.finished(stream, id, source_id)
        begin, _ = records.beginning(stream)
        if there is None:
            await destination.create(records.unfinished(wanted, begin))
        position = there.tail if there is not None else begin
        digest = Digest(stream)
        async for batch in self._source.batches(stream, begin):
            digest.add(batch)
            rest = batch.after(position)
            if rest is not None:
                await destination.add(wanted, rest)
                self._progress.copied(len(rest.data))
        if not self._source.is_exact:
            stream = await self._source.completed(stream)
            wanted = replace(stream, id=id, created_ms=there.created_ms if there else stream.created_ms)
            if there is not None and records.looks_same(there, wanted):
                wanted = there
        is_new = there is None or not records.is_same(there, wanted)
        if is_new:
            await destination.finish(wanted)
        self._unverified.append(_Written(wanted, digest, is_new))

    def _may_use(self, stream: Stream, there: Stream) -> bool:
        if records.is_same(stream, there):
            return True
        if not self._goes_on:
            return not self._source.is_exact  # its bytes were compared
        return records.may_go_on(there, stream, is_exact=self._source.is_exact)

    # -- Verifying -------------------------------------------------------------------------------

    async def _verify(self) -> None:
        written, self._unverified = self._unverified, []
        for one in written:
            stream = one.stream
            there = await self._destination.find(stream.name)
            found = await self._digest(self._destination, stream)
            is_whole = there is not None and records.is_same(there, stream)
            is_whole &= found.of_bytes == one.digest.of_bytes
            is_whole &= not self._source.is_exact or found.of_appends == one.digest.of_appends
            if not is_whole:
                raise StoreError(
                    f"{self._destination.name}: {stream.name} is not as it should be after copying."
                )
            size = records.kept_bytes(stream)
            self._report.streams += 1
            self._report.copied += one.is_new
            self._report.bytes += size
            self._progress.verified(Verified(stream.name, size, stream.tail, found.of_bytes, one.is_new))
