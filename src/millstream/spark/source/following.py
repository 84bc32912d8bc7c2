"""Following: the driver's side of reading. What exists, what is new, and how much of it to admit.

A `Follower` looks up all streams of a query and compares them with how far the query has read. It keeps no
state that a restarted driver would need: that is all in the positions.
"""

import logging
import time
from collections.abc import Iterable, Mapping

import msgspec

from millstream.client.core import errors
from millstream.protocol.content import Kind
from millstream.spark.json.messages import Message
from millstream.spark.json.splitting import split_array
from millstream.spark.lookups import Found, Server
from millstream.spark.option_values import EARLIEST, LATEST
from millstream.spark.options import OptionError, SourceOptions
from millstream.spark.source import counting, offsets
from millstream.spark.source.counting import Budget
from millstream.spark.source.event_times import Lane, admit_by_time, time_reader
from millstream.spark.source.offsets import Position, Positions
from millstream.spark.source.planning import Range, admit_bytes

WAIT_S = 2.0
"""Spark polls every few milliseconds if nothing is new, and cannot stop a query while we wait."""

_PAUSE_S = 0.1
_MANY = 8
"""From how many streams on they are looked up in one request."""
_MIN_PIECE, _MAX_PIECE = 4 * 2**10, 256 * 2**10
"""How many bytes of a stream are looked at in one request for their event times."""
_log = logging.getLogger(__name__)
_GONE = (errors.StreamNotFoundError, errors.StreamGoneError)


class DataLossError(errors.MillstreamError):
    """Content was deleted or trimmed before the query had read it."""

    default_code = "DATA_LOSS"


class Follower:
    """The streams of a query."""

    def __init__(self, options: SourceOptions, server: Server) -> None:
        self._options = options
        self._server = server
        self._warned: set[str] = set()
        self._lanes: dict[str, Lane] = {}

    def look(self, known: Iterable[str] = ()) -> dict[str, Found]:
        """Look up every stream; those known to have ended are skipped."""
        if self._options.pattern is not None:
            return self._server.matching(self._options.pattern)
        skipped = set(known)
        names = [name for name in self._options.streams if name not in skipped]
        found = self._server.named(names) if len(names) >= _MANY and self._server.has_many() else {}
        for name in names:
            if name not in found:  # one that is missing is asked for by itself, to know why
                try:
                    found[name] = self._server.look(name)
                except _GONE as error:
                    self.lose(name, str(error))
        return found

    def lose(self, name: str, reason: str) -> None:
        """Fail because of lost content, or log it once and go on."""
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{name} cannot be read: {reason}. Content may be lost; "
                "set the option failOnDataLoss to false to go on without it"
            )
        if name not in self._warned:
            self._warned.add(name)
            _log.warning("%s cannot be read, going on without it: %s", name, reason)

    def step(self, stream: str, start: str, until: str, limit: int) -> str:
        """Return where a range can be split; one that is gone stays whole, and its reader reports it."""
        try:
            return self._server.step(stream, start, until, limit)
        except _GONE:
            return until

    # -- Where to begin and to end -----------------------------------------------------------------

    def beginning(self) -> dict[str, Position]:
        """Return where a new query begins."""
        if self._options.starting_timestamp is not None:
            return self._resolve_time(self._options.starting_timestamp, EARLIEST, "startingTimestamp")
        return self._resolve(self._options.starting_offsets, EARLIEST, "startingOffsets")

    def ending(self, begin: Positions) -> dict[str, Position]:
        """Return where a batch read ends."""
        if self._options.ending_timestamp is not None:
            ends = self._resolve_time(self._options.ending_timestamp, LATEST, "endingTimestamp")
            return {
                name: end if name in begin and end.offset > begin[name].offset else begin[name]
                for name, end in ends.items()
                if name in begin
            }
        ends = self._resolve(self._options.ending_offsets, LATEST, "endingOffsets")
        counted = {}
        for name, end in ends.items():
            start = begin.get(name)
            if start is None:
                continue
            if start.total is None:
                if end.offset < start.offset:
                    raise OptionError(
                        "endingOffsets", f"ends {name} at {end.offset}, before its start, {start.offset}"
                    )
                counted[name] = end
                continue
            if self._options.ending_offsets != LATEST:
                raise OptionError(
                    "endingOffsets", "needs a server that reads up to an offset (until); leave it out here"
                )
            counted[name] = counting.count_on(self._server, name, start, Budget()).position
        return counted

    def targets(self) -> dict[str, Found]:
        """Return the streams as they are now, or were at `endingTimestamp`: there a finite query ends."""
        if self._options.ending_timestamp is None:
            return self.look()
        found = self.look()
        ends = self._resolve_time(self._options.ending_timestamp, LATEST, "endingTimestamp", found)
        return {
            name: msgspec.structs.replace(stream, tail=ends[name].offset, closed=ends[name].closed)
            for name, stream in found.items()
        }

    def _resolve_time(
        self,
        wanted: str | Mapping[str, str],
        default: str,
        option: str,
        found: Mapping[str, Found] | None = None,
    ) -> dict[str, Position]:
        """Return where a time is in each stream; after the last append it is the tail."""
        found = self.look() if found is None else found
        if isinstance(wanted, Mapping) and (unknown := sorted(set(wanted) - set(found))):
            raise OptionError(option, f"names {unknown[0]!r}, which is not there; check its name")
        positions = {}
        for name, stream in found.items():
            time = wanted if isinstance(wanted, str) else wanted.get(name)
            if time is None:
                positions[name] = _within(stream, self._position(name, stream, default))
                continue
            offset = self._server.at_time(name, time) if stream.bounded else None
            if offset is None:
                raise OptionError(option, "needs a server that knows arrival times; use offsets here")
            is_end = stream.closed and offset == stream.tail
            positions[name] = _within(stream, Position(offset, closed=is_end))
        return positions

    def _resolve(self, wanted: str | Mapping[str, str], default: str, option: str) -> dict[str, Position]:
        found = self.look()
        if isinstance(wanted, dict) and (unknown := sorted(set(wanted) - set(found))):
            raise OptionError(option, f"names {unknown[0]!r}, which is not there; check its name")
        positions = {}
        for name, stream in found.items():
            text = wanted.get(name, default) if isinstance(wanted, Mapping) else wanted
            positions[name] = _within(stream, self._position(name, stream, text))
            if text not in (EARLIEST, LATEST):
                self._check(name, stream, positions[name], option)
        return positions

    def _position(self, name: str, stream: Found, wanted: str) -> Position:
        if self._options.include_timestamp and not stream.bounded:
            raise OptionError(
                "includeTimestamp",
                "needs a server that knows arrival times, such as millstream's; leave it out",
            )
        counted = None if stream.bounded else 0
        if wanted == EARLIEST:
            return Position(self._server.beginning(name, bounded=stream.bounded), total=counted)
        if wanted == LATEST:
            return Position(stream.tail, total=counted, closed=stream.closed)
        return offsets.parse(wanted, counted=not stream.bounded)

    def _check(self, name: str, stream: Found, position: Position, option: str) -> None:
        """Refuse a user's offset that the stream does not have."""
        problem = None
        if position.offset > stream.tail:
            problem = f"after the stream's end, {stream.tail}"
        else:
            try:
                self._server.check(name, position.offset)
            except errors.BadRequestError:
                problem = "nowhere in the stream"
        if problem is not None:
            raise OptionError(
                option,
                f"gives {name} the offset {position.offset!r}, which is {problem}; "
                "take one from the column offset, or earliest or latest",
            )

    # -- What is new -------------------------------------------------------------------------------

    def advance(
        self, start: Positions, found: Mapping[str, Found], budget: Budget | None = None
    ) -> dict[str, Position]:
        """Advance the positions towards the tails, as far as the budget allows.

        A new stream joins at its beginning; its content comes with the next advance.
        """
        ends: dict[str, Position] = {}
        for name, position in start.items():
            stream = found.get(name)
            if position.closed:
                ends[name] = position
            elif stream is None:
                if self._options.pattern is not None:
                    self.lose(name, "it is no longer listed")
                ends[name] = position
            else:
                ends[name] = self._end(name, position, stream)
        budget = budget or Budget()
        ends = self._admit(start, ends, budget, found)
        for name in set(found) - set(start):
            ends[name] = self._position(name, found[name], EARLIEST)
        return {name: _within(found.get(name), end) for name, end in ends.items()}

    def _end(self, name: str, position: Position, stream: Found) -> Position:
        """Return a stream's end, as a position of the same kind as the current one."""
        if position.is_of_another(stream.incarnation):
            self.lose(name, "it was deleted and made anew since it was last read")
            return self._position(name, stream, EARLIEST)
        if position.total is not None:
            return Position(stream.tail, total=position.total, closed=stream.closed)
        if stream.tail < position.offset:
            self.lose(name, f"it ends at {stream.tail}, before {position.offset}, where it was read to")
            return self._position(name, stream, EARLIEST)  # it was deleted and recreated
        if not self._options.fail_on_data_loss and stream.tail != position.offset:
            try:
                self._server.check(name, position.offset)
            except errors.StreamGoneError as error:  # older content was trimmed
                self.lose(name, str(error))
                return self._position(name, stream, EARLIEST)
        return Position(stream.tail, closed=stream.closed)

    def _admit(
        self, start: Positions, ends: dict[str, Position], budget: Budget, found: Mapping[str, Found]
    ) -> dict[str, Position]:
        exact = {name: end for name, end in ends.items() if end.total is None}
        timed = self._admit_by_time(start, exact, budget, found)
        if timed is not None:
            exact = timed
        elif budget.size is not None:
            exact = admit_bytes(start, exact, budget.size, self.step)
        if timed is None and budget.rows is not None:
            exact = self._admit_rows(start, exact, budget.rows, found)
        counted = {name: end for name, end in ends.items() if end.total is not None}
        return {**exact, **self._admit_counted(start, counted, budget)}

    def _admit_by_time(
        self, start: Positions, ends: Positions, budget: Budget, found: Mapping[str, Found]
    ) -> dict[str, Position] | None:
        """Admit the oldest events; None if that is not wanted, everything fits, or nothing has times."""
        field = self._options.event_time
        if field is None or (budget.rows is None and budget.size is None):
            return None
        lags = {name: Range(name, start[name], ends[name]).size or 0 for name in ends}
        if budget.rows is None and sum(lags.values()) <= (budget.size or 0):
            return None
        timed = [name for name, lag in lags.items() if lag > 0 and found[name].kind is Kind.JSON]
        if not timed:
            return None
        piece = max(_MIN_PIECE, min(_MAX_PIECE, (budget.size or _MAX_PIECE) // len(timed)))
        self._lanes = {name: self._lane(name, start[name], field, piece) for name in timed}
        for name, lane in self._lanes.items():
            lane.look(ends[name].offset)
        admit_by_time(self._lanes, budget.rows, budget.size)
        admitted = dict(ends)  # what is no JSON has no times, and is not waited for
        for name, lane in self._lanes.items():
            if lane.offset() != ends[name].offset:
                admitted[name] = Position(lane.offset())
        return admitted

    def _lane(self, name: str, start: Position, field: str, piece: int) -> Lane:
        known = self._lanes.get(name)
        if known is not None and known.offset() == start.offset:
            return known
        prefix, _, number = start.offset.rpartition("_")

        def fetch(offset: str, until: str) -> list[Message]:
            try:
                return split_array(self._server.some(name, piece, offset, until))
            except _GONE:  # what is gone is found out when streams are looked at next
                return []

        return Lane(f"{prefix}_", int(number), fetch, time_reader(field))

    def rows_within(self, one: Range, max_rows: int, kind: Kind) -> counting.Counted:
        """Find where a number of rows ends; messages are rows whatever their times are."""
        times = self._options.include_timestamp and kind is not Kind.JSON
        return counting.rows_within(self._server, one, max_rows, times=times)

    def _admit_rows(
        self, start: Positions, ends: Positions, max_rows: int, found: Mapping[str, Found]
    ) -> dict[str, Position]:
        admitted = dict(ends)
        lagging = [name for name in ends if not start[name].same_place(ends[name])]
        lagging.sort(key=lambda name: (-(Range(name, start[name], ends[name]).size or 0), name))
        left = max_rows
        for number, name in enumerate(lagging):
            share = -(-left // (len(lagging) - number))
            if share == 0:
                admitted[name] = start[name]
                continue
            one = Range(name, start[name], ends[name])
            counted = self.rows_within(one, share, found[name].kind)
            admitted[name] = counted.position
            left -= counted.rows
        return admitted

    def _admit_counted(self, start: Positions, ends: Positions, budget: Budget) -> dict[str, Position]:
        admitted = {}
        for name, end in ends.items():
            position = start[name]
            if position.closed:
                admitted[name] = position
            elif position.offset >= end.offset and not position.skip:
                admitted[name] = Position(position.offset, total=position.total, closed=end.closed)
            elif budget.is_spent:
                admitted[name] = position
            else:
                try:
                    counted = counting.count_on(self._server, name, position, budget)
                except _GONE as error:
                    self.lose(name, str(error))
                    admitted[name] = position
                    continue
                budget = budget.without(counted.rows, counted.size)
                reached = counted.position
                at_end = end.closed and reached.offset == end.offset and not reached.skip
                admitted[name] = Position(reached.offset, reached.skip, reached.total, at_end)
        return admitted

    # -- Waiting -----------------------------------------------------------------------------------

    def wait(self, start: Positions, seconds: float = WAIT_S) -> dict[str, Found]:
        """Wait until something is new, for a limited time, and return the streams' state."""
        deadline = time.monotonic() + seconds
        closed = [name for name, position in start.items() if position.closed]
        while True:
            looked_at = time.monotonic()
            found = self.look(closed)
            if self._is_new(start, found) or time.monotonic() >= deadline:
                return found
            open_names = [name for name in found if name not in closed]
            left = deadline - time.monotonic()
            if len(open_names) == 1 and self._options.pattern is None:
                self._long_poll(open_names[0], found[open_names[0]].tail, left)
            else:
                took = time.monotonic() - looked_at
                time.sleep(max(0.0, min(left, max(_PAUSE_S, 2 * took))))

    def _long_poll(self, name: str, tail: str, seconds: float) -> None:
        started = time.monotonic()
        try:
            self._server.wait(name, tail, max(_PAUSE_S, seconds))
        except errors.MillstreamError as error:
            _log.info("waiting for %s was cut short: %s", name, error)
        if time.monotonic() - started < _PAUSE_S:
            time.sleep(_PAUSE_S)  # a server that does not wait must not be polled in a tight loop

    def _is_new(self, start: Positions, found: Mapping[str, Found]) -> bool:
        for name, stream in found.items():
            position = start.get(name)
            if position is None:
                return True
            if not position.closed and (
                stream.closed or stream.tail != position.offset or position.skip != 0
            ):
                return True
        return False

    def is_finished(self, start: Positions, found: Mapping[str, Found]) -> bool:
        """Return whether every stream has been read to its end; a deleted one counts as read."""
        if not start and not found:
            return False
        return all(position.closed or name not in found for name, position in start.items()) and not (
            set(found) - set(start)
        )


def _within(stream: Found | None, position: Position) -> Position:
    """Add to a position which stream it is in."""
    if stream is None or stream.incarnation is None or position.incarnation == stream.incarnation:
        return position
    return msgspec.structs.replace(position, incarnation=stream.incarnation)
