"""What is stored about runs, beside their streams.

        /.runs/<name>/active/<key>   a run that is not over: its stream, its input, whether it is paused
        /.runs/<name>/ended/<key>    how a run has ended, unless it is complete and has closed its stream

A data folder belongs to one process. So whatever is active when the store is opened was left by a process
that is gone. An active record is written before the run begins, and deleted after its end is stored.
"""

import contextlib
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from millstream.client.aio.driving import run
from millstream.client.core.errors import StreamNotFoundError
from millstream.client.core.exchanges import Terms
from millstream.client.core.plans import listing
from millstream.server.asgi.app import MillstreamApp

_ENDED_SECONDS = 7 * 24 * 3600
_JSON = "application/json"


class Record(msgspec.Struct, frozen=True):
    """A run, as it is stored."""

    path: str
    id: str
    input: Any
    content_type: str
    closes: bool
    paused: bool = False

    @property
    def key(self) -> str:
        """The name of the run's records."""
        return key_of(self.path, self.id)


def key_of(path: str, id: str) -> str:
    """Name the records of a run: of any length and with any characters in its path."""
    return hashlib.sha256(f"{path}\n{id}".encode()).hexdigest()[:32]


class Records:
    """The records of an application's runs."""

    def __init__(self, streams: MillstreamApp, name: str) -> None:
        self._streams = streams
        self._active = f"/.runs/{name}/active/"
        self._ended = f"/.runs/{name}/ended/"

    async def begin(self, record: Record) -> None:
        """Store that a run is active."""
        await self._streams.create(
            self._active + record.key, content_type=_JSON, body=[msgspec.to_builtins(record)]
        )

    async def update(self, record: Record) -> None:
        """Store a change of an active run; the last one counts."""
        await self._streams.stream(self._active + record.key, content_type=_JSON).append(
            msgspec.to_builtins(record)
        )

    async def end(self, key: str, outcome: str) -> None:
        """Store how a run has ended; a second call changes nothing."""
        await self._streams.create(
            self._ended + key,
            content_type=_JSON,
            ttl_seconds=_ENDED_SECONDS,
            body=[{"outcome": outcome}],
            closed=True,
        )

    async def forget(self, key: str) -> None:
        """Delete the active record: the run is over. A second call changes nothing."""
        with contextlib.suppress(StreamNotFoundError):
            await self._streams.stream(self._active + key).delete()

    async def outcome(self, key: str) -> str | None:
        """Return how a run has ended, if that is stored."""
        try:
            response = await self._streams.stream(self._ended + key).stream(live=False)
        except StreamNotFoundError:
            return None
        [record] = await response.read_json()
        return str(record["outcome"])

    async def active(self) -> AsyncIterator[Record]:
        """Iterate over the runs that are not over."""
        cursor: str | None = ""
        while cursor is not None:
            plan = listing.page(
                listing.endpoint_of(self._streams.url("/"), None), Terms(), prefix=self._active, cursor=cursor
            )
            page = await run(self._streams.client, plan)
            for found in page.streams:
                stored = await self._streams.stream(found.path).stream(live=False)
                yield msgspec.convert((await stored.read_json())[-1], Record)
            cursor = page.cursor
