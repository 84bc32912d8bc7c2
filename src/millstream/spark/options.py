"""Options of `format("durable-streams")`, for reading and writing, declared once.

Spark passes text and ignores case. Everything is checked here, before a query starts; an error names the
option, what is wrong with it, and what to do.
"""

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from millstream.spark import option_values as values
from millstream.spark.option_values import EARLIEST, LATEST, Moments, Offsets

T = TypeVar("T")
Side = TypeVar("Side", bound="ServerOptions")

_FIRST_RETRIES = 2

MAX_PART_BYTES = 8 * 2**20

STREAMING_ONLY = (
    "maxBytesPerTrigger",
    "maxRowsPerTrigger",
    "minRowsPerTrigger",
    "maxTriggerDelay",
    "untilClosed",
    "eventTime",
)

_SPARKS = frozenset(
    name.lower()
    for name in (
        "path",
        "paths",
        "queryName",
        "checkpointLocation",
        "asyncProgressTrackingEnabled",
        "asyncProgressTrackingCheckpointIntervalMs",
        "__is_streaming",
    )
)
"""Options that are Spark's own, and that it passes on."""


class OptionError(ValueError):
    """An option is missing, misspelt or has an invalid value."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)  # both, so that it can be pickled
        self.option = name

    def __str__(self) -> str:
        return "option {}: {}".format(*self.args)


@dataclasses.dataclass(frozen=True)
class Option:
    """The declaration of one option; `shown` is its default as documentation shows it."""

    name: str
    help: str
    shown: str
    parse: Callable[[str], Any]


def _option(parse: Callable[[str], T], help: str, default: Any = None, shown: str = "") -> Any:
    return dataclasses.field(default=default, metadata={"parse": parse, "help": help, "shown": shown})


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The options of both sides: the server, and how to send requests to it."""

    url: str = _option(values.url, "The server's URL.", default="")
    headers: tuple[tuple[str, str], ...] = _option(
        values.headers, "Headers for every request, as a JSON object.", default=()
    )
    token: str | None = _option(values.text, "Sent as `Authorization: Bearer`.")
    timeout: float = _option(
        values.seconds, "How many seconds the server may stay silent.", default=30.0, shown="30"
    )
    retries: int = _option(
        values.number,
        "How many times a request is retried after a transient failure.",
        default=10,
        shown="10",
    )

    def hastened(self: Side) -> Side:
        """Return options for a first contact: with few retries, because the address may be wrong."""
        return dataclasses.replace(self, retries=min(self.retries, _FIRST_RETRIES))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.url!r}, ...)"  # tokens stay out of logs


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SourceOptions(ServerOptions):
    """The options for reading."""

    streams: tuple[str, ...] = _option(
        values.names, "Names of streams below `url`: separated by commas, or a JSON array.", default=()
    )
    pattern: str | None = _option(
        values.pattern,
        "Instead of `streams`, a glob over the server's listing: `*` within a segment, `**` across. "
        "New streams join a running query.",
    )
    starting_offsets: Offsets = _option(  # noqa: RUF009 (a field, declared by a function)
        values.offsets,
        "`earliest`, `latest`, or JSON with an offset for each stream. For new queries only.",
        default=EARLIEST,
        shown=EARLIEST,
    )
    ending_offsets: Offsets = _option(  # noqa: RUF009 (a field, declared by a function)
        values.offsets, "Where to stop, in the same form. Batch reads only.", default=LATEST, shown=LATEST
    )
    starting_timestamp: Moments | None = _option(  # noqa: RUF009 (a field, declared by a function)
        values.moments,
        "Instead of `startingOffsets`: begin with the first append that arrived at a time or later: "
        "`2026-11-18T09:30:00Z`, `-10 minutes`, milliseconds since 1970, or JSON with one of these for each "
        "stream (others begin at `earliest`). Where there is none yet: `latest`. For new queries only.",
    )
    ending_timestamp: Moments | None = _option(  # noqa: RUF009 (a field, declared by a function)
        values.moments,
        "Instead of `endingOffsets`: stop before the first append that arrived at a time or later. "
        "In streaming queries it needs `trigger(availableNow=True)`.",
    )
    max_bytes_per_trigger: int | None = _option(
        values.size, "About how many bytes a micro-batch holds at most, such as `64m`. Streaming only."
    )
    max_rows_per_trigger: int | None = _option(
        values.count,
        "How many rows a micro-batch holds at most; the driver counts them by reading. Streaming only.",
    )
    min_rows_per_trigger: int | None = _option(
        values.count,
        "Wait until a micro-batch has this many rows, or `maxTriggerDelay` has passed. The driver counts "
        "them by reading. Streaming only.",
    )
    max_trigger_delay: float = _option(
        values.duration,
        "How long `minRowsPerTrigger` holds rows back at most since the last micro-batch: `30s`, `15m`.",
        default=900.0,
        shown="15m",
    )
    event_time: str | None = _option(
        values.text,
        "The field of JSON messages that holds their time. A micro-batch that cannot hold everything is then "
        "filled with the oldest events of all streams, so that none is late for a watermark because another "
        "stream was read first. The driver reads what it admits. Streaming only.",
    )
    partition_bytes: int = _option(
        values.size,
        "Larger ranges are split, smaller ones share a partition.",
        default=64 * 2**20,
        shown="64m",
    )
    min_partitions: int | None = _option(values.count, "Split further, into about this many partitions.")
    fail_on_data_loss: bool = _option(
        values.flag,
        "If content is deleted or trimmed before it was read: fail, or log a warning and continue.",
        default=True,
        shown="true",
    )
    until_closed: bool = _option(
        values.flag,
        "End the query once every stream is closed and read. Needs `trigger(availableNow=True)`.",
        default=False,
        shown="false",
    )
    value_type: str | None = _option(
        values.choice("string", "binary"),
        "The type of the column `value`.",
        shown="`string` if all streams are text or JSON",
    )
    mode: str = _option(
        values.choice("permissive", "dropmalformed", "failfast"),
        "What to do with a message that does not fit the schema: null for the fields that do not, "
        "no row (`dropmalformed`), or fail (`failfast`).",
        default="permissive",
        shown="permissive",
    )
    column_name_of_corrupt_record: str = _option(
        values.text,
        "The string column of this name, if the schema has one, holds the text of such messages.",
        default="_corrupt_record",
        shown="_corrupt_record",
    )
    timestamp_format: str | None = _option(
        values.time_pattern,
        "How fields of the type timestamp are written, as a pattern of Spark: `dd/MM/yyyy HH:mm:ss`.",
        shown="ISO 8601, as in a `CAST`",
    )
    date_format: str | None = _option(
        values.time_pattern,
        "How fields of the type date are written.",
        shown="ISO 8601, as in a `CAST`",
    )
    time_zone: str = _option(
        values.zone,
        "The zone of times that name none. Spark does not tell a source the session's.",
        default="UTC",
        shown="UTC",
    )
    include_timestamp: bool = _option(
        values.flag,
        "Add a column `timestamp`: when the row's append arrived.",
        default=False,
        shown="false",
    )
    include_closed: bool = _option(
        values.flag,
        "Add a column `closed`, and one last row, with a null value, for each stream that ends.",
        default=False,
        shown="false",
    )
    counts: bool = _option(
        values.flag,
        "Instead of the rows, how many there are: the columns are `stream` and `rows`, to be added up.",
        default=False,
        shown="false",
    )
    cache_directory: str | None = _option(
        values.text,
        "A directory on the executors' disks where the columns of ranges that were read are kept, so that "
        "they are parsed once. Without it nothing is kept.",
    )
    cache_bytes: int = _option(
        values.size,
        "How many bytes `cacheDirectory` holds at most; what was not used for the longest time goes.",
        default=2**30,
        shown="1g",
    )


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SinkOptions(ServerOptions):
    """The options for writing."""

    stream: str | None = _option(
        values.pattern, "The stream that all rows go to. Without it, a column `stream` names each row's."
    )
    create_missing: bool = _option(values.flag, "Create missing streams.", default=True, shown="true")
    content_type: str | None = _option(
        values.text,
        "The content type of created streams. If given, existing streams must have it, too.",
        shown="application/json",
    )
    close_on_end: bool = _option(
        values.flag, "Close the streams after the write. Batch writes only.", default=False, shown="false"
    )
    commit: str | None = _option(
        values.choice("parts", "producer", "driver"),
        "How a batch is committed exactly once. Required on servers without parts.",
        shown="`parts` where the server has them",
    )
    order: str = _option(
        values.choice("sort", "asis"),
        "With `commit=producer`: sort rows, or trust that a replay gives the same order.",
        default="sort",
        shown="sort",
    )
    part_bytes: int = _option(
        values.size, "The approximate size of a request, at most `8m`.", default=4 * 2**20, shown="4m"
    )
    txn_app_id: str | None = _option(values.text, "In `foreachBatch`: an id of the application.")
    txn_version: int | None = _option(values.number, "In `foreachBatch`: the batch's id.")
    sink_id: str | None = _option(
        values.text, "Distinguishes several writes of one batch. Required in `foreachBatch`."
    )
    compare_replays: bool = _option(
        values.flag,
        "With `commit=parts`: fail if a repeated batch has another number of rows for a stream than when it "
        "was committed, as after a checkpoint was set back; false: the first one counts.",
        default=True,
        shown="true",
    )
    idempotency_key: str | None = _option(
        values.text, "Batch writes: a repeated write with this key changes nothing."
    )


def declared(side: type[ServerOptions]) -> list[Option]:
    """List the options of one side, as users write them."""
    return [
        Option(_camel(field.name), field.metadata["help"], field.metadata["shown"], field.metadata["parse"])
        for field in dataclasses.fields(side)
    ]


def source_options(given: Mapping[str, str], *, streaming: bool | None = None) -> SourceOptions:
    """Check options for reading. `streaming` refuses batch options and vice versa; None accepts both."""
    options = _parse(SourceOptions, SinkOptions, given)
    if bool(options.streams) == bool(options.pattern):
        if options.streams:
            raise OptionError("pattern", "comes together with streams; give one of them")
        raise OptionError("streams", "is missing; name streams with it, or give a pattern")
    if options.streams:
        _check_names("startingOffsets", options.starting_offsets, options.streams)
        _check_names("endingOffsets", options.ending_offsets, options.streams)
        _check_names("startingTimestamp", options.starting_timestamp, options.streams)
        _check_names("endingTimestamp", options.ending_timestamp, options.streams)
    for offsets, timestamp in (
        ("startingOffsets", options.starting_timestamp),
        ("endingOffsets", options.ending_timestamp),
    ):
        if timestamp is not None:
            _refuse(given, (offsets,), f"comes together with {offsets[:-7]}Timestamp; give one of them")
    if options.until_closed and options.ending_timestamp is not None:
        raise OptionError("endingTimestamp", "comes together with untilClosed; give one of them")
    if options.min_rows_per_trigger is None:
        _refuse(given, ("maxTriggerDelay",), "is for minRowsPerTrigger; give that, or leave it out")
    elif options.min_rows_per_trigger > (options.max_rows_per_trigger or options.min_rows_per_trigger):
        raise OptionError("minRowsPerTrigger", "is more than maxRowsPerTrigger; lower it")
    if options.counts:
        unused = ("includeClosed", "includeTimestamp", "mode", "valueType")
        _refuse(given, unused, "has no effect on how many rows there are; leave it out, or counts")
    if streaming is True:
        problem = "is for batch reads; leave it out, a streaming query has no end"
        _refuse(given, ("endingOffsets",), problem)
    elif streaming is False:
        _refuse(given, STREAMING_ONLY, "is for streaming queries; leave it out, or use readStream")
    return options


def sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Check options for writing."""
    options = _parse(SinkOptions, SourceOptions, given)
    if options.part_bytes > MAX_PART_BYTES:
        raise OptionError("partBytes", "is more than 8m; servers refuse large requests")
    if streaming:
        _refuse(
            given, ("txnAppId", "txnVersion"), "is for foreachBatch; a streaming write has ids of its own"
        )
        _refuse(given, ("idempotencyKey",), "is for batch writes; a streaming write has ids of its own")
        if options.close_on_end:
            raise OptionError(
                "closeOnEnd",
                "is for batch writes, because Spark does not tell a sink that its query has ended; "
                "use millstream.spark.sink.endings.run_to_end, or rows with a column closed",
            )
    if (options.txn_app_id is None) != (options.txn_version is None):
        missing = "txnAppId" if options.txn_app_id is None else "txnVersion"
        raise OptionError(missing, "is missing; txnAppId and txnVersion come together")
    if options.txn_app_id is not None:
        _refuse(given, ("idempotencyKey",), "comes together with txnAppId; give one of them")
    return options


def _parse(side: type[Side], other: type[ServerOptions], given: Mapping[str, str]) -> Side:
    known = {option.name.lower(): (field.name, option) for field, option in _pairs(side)}
    others = {option.name.lower(): option.name for _, option in _pairs(other)}
    found: dict[str, Any] = {}
    for name, value in given.items():
        lowered = name.lower()
        if lowered in known:
            field_name, option = known[lowered]
            try:
                found[field_name] = option.parse(str(value))
            except values.Problem as problem:
                raise OptionError(option.name, str(problem)) from None
        else:
            _refuse_unknown(name, [option.name for _, option in known.values()], others)
    if not found.get("url"):
        raise OptionError(
            "url",
            "is missing; give the server's, such as http://127.0.0.1:4437. Spark does not pass on the "
            "options of CREATE TABLE; give them with the query: SELECT * FROM t WITH (url = '...', ...)",
        )
    return side(**found)


def _refuse_unknown(name: str, known: Iterable[str], others: Mapping[str, str]) -> None:
    """Refuse an option that neither this side nor Spark has, and name the nearest one that there is."""
    if name.lower() in _SPARKS or name.lower().startswith("spark."):
        return
    by_lower = {one.lower(): one for one in known}
    nearest = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
    if name.lower() in others:
        hint = f"did you mean {by_lower[nearest[0]]}?" if nearest else "leave it out"
        raise OptionError(others[name.lower()], f"is not an option in this direction; {hint}")
    nearest = nearest or difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.0)
    raise OptionError(name, f"is not known; did you mean {by_lower[nearest[0]]}?")


def _refuse(given: Mapping[str, str], names: Iterable[str], problem: str) -> None:
    lowered = {name.lower() for name in given}
    for name in names:
        if name.lower() in lowered:
            raise OptionError(name, problem)


def _check_names(option: str, offsets: Offsets | None, streams: Iterable[str]) -> None:
    unknown = set(offsets) - set(streams) if isinstance(offsets, dict) else set()
    if unknown:
        raise OptionError(option, f"names {min(unknown)!r}, which is not one of streams; add it there")


def _pairs(side: type[ServerOptions]) -> list[tuple[Any, Option]]:
    return list(zip(dataclasses.fields(side), declared(side), strict=True))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
