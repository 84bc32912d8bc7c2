"""Records: which are valid, and what happens to the others.

A record is valid if it is one JSON object that matches the schema, has at least one of its columns, and all
that are NOT NULL. Others are never lost: they go to a
dead-letter stream, unchanged and with a reason, or they stop the pipeline. The column `_error` holds the
reason; it is null for valid records.
"""

from functools import reduce
from operator import or_

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from millstream.spark.option_values import stream_name
from millstream.spark.options import OptionError
from millstream.spark.pipelines.running import RECORDS
from millstream.spark.sink.columns import OFFSET, STREAM, VALUE
from millstream.spark.source.schemas import TIMESTAMP

RAW, ERROR = "_value", "_error"
"""The original message, and what is wrong with it. The names avoid those of fields."""

DEAD_LETTER, FAIL = "dead-letter", "fail"
LAST_TIME = "9999-01-01"
"""Later times are refused: they would close every window."""

_CORRUPT = "_corrupt_record"
_FIELDS = "_fields"
_SHOWN = 200


class BadRecords(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to bad records: `dead-letter` (to the stream of that name) or `fail`."""

    action: str = DEAD_LETTER
    stream: str = "_dead-letters"

    def __post_init__(self) -> None:
        if self.action not in (DEAD_LETTER, FAIL):
            raise OptionError("on-bad-record", f"{self.action!r} is not one of {DEAD_LETTER}, {FAIL}")

    @property
    def name(self) -> str | None:
        """The dead-letter stream, if there is one."""
        return stream_name(self.stream) if self.action == DEAD_LETTER else None


def parsed(frame: DataFrame, schema: str, event_time: str | None = None) -> DataFrame:
    """Parse messages: `stream`, `offset`, `_value`, the fields of the schema, and `_error`.

    `timestamp` stays where the source has it (`includeTimestamp`).
    """
    wanted = _message_schema(schema)
    arrival = [TIMESTAMP] if TIMESTAMP in frame.columns else []
    if arrival and TIMESTAMP in wanted.fieldNames():
        raise OptionError(
            "schema", "has a column 'timestamp', as includeTimestamp does; leave one of them out"
        )
    nullable = [StructField(field.name, field.dataType) for field in wanted.fields]  # checked below
    with_corrupt = StructType([*nullable, StructField(_CORRUPT, StringType())])
    permissive = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    fields = f.from_json(f.col(VALUE).cast("string"), with_corrupt, permissive)
    taken = frame.select(STREAM, OFFSET, *arrival, f.col(VALUE).alias(RAW), fields.alias(_FIELDS))
    text = f.col(RAW).cast("string")
    # from_json would read the first of several values and ignore the others.
    is_object = is_one_message(text) & text.rlike(r"^\s*\{")
    error = (
        f.when(~is_object, "not one JSON object")
        .when(f.col(_FIELDS).isNull(), "does not fit the schema")
        .when(f.col(f"{_FIELDS}.{_CORRUPT}").isNotNull(), "does not fit the schema")
    )
    present = [f.col(f"{_FIELDS}.`{field.name}`").isNotNull() for field in wanted.fields]
    names = f.array(*(f.lit(field.name) for field in wanted.fields))
    has_some = f.coalesce(f.arrays_overlap(f.json_object_keys(text), names), f.lit(False))
    error = error.when(~reduce(or_, present) & ~has_some, "has none of the schema's columns")
    for field in wanted.fields:
        if not field.nullable:
            error = error.when(f.col(f"{_FIELDS}.`{field.name}`").isNull(), f"has no {field.name}")
    if event_time is not None:
        if event_time not in (*wanted.fieldNames(), *arrival):
            raise OptionError("event-time", f"names {event_time!r}, which is not a column of the schema")
        at = f.col(TIMESTAMP) if event_time in arrival else f.col(f"{_FIELDS}.`{event_time}`")
        late = f.lit(LAST_TIME).cast("timestamp")
        error = error.when(at.isNull() | (at >= late), f"no time in {event_time}")
    apart = [f.col(f"{_FIELDS}.`{field.name}`").alias(field.name) for field in wanted.fields]
    return taken.select(STREAM, OFFSET, RAW, *arrival, *apart, error.alias(ERROR))


def counted(frame: DataFrame, name: str = RECORDS) -> DataFrame:
    """Count records with Spark's observation metrics."""
    bad = f.count_if(f.col(ERROR).isNotNull()).alias("bad")
    return frame.observe(name, f.count(f.lit(1)).alias("rows"), bad)


def judged(frame: DataFrame, bad: BadRecords, where: Column) -> DataFrame:
    """Fail at the first bad record if configured so; `where` locates it."""
    if bad.action != FAIL:
        return frame
    message = f.concat_ws(": ", f.lit("BadRecordError"), where, f.col(ERROR), start_of(f.col(RAW)))
    stop = f.raise_error(message).cast("boolean")
    return frame.where(f.when(f.col(ERROR).isNull(), f.lit(True)).otherwise(stop))


def located() -> Column:
    """Describe where a message of a stream is."""
    return f.concat(f.col(STREAM), f.lit(" before "), f.col(OFFSET))


def is_one_message(text: Column) -> Column:
    """Return whether a text is one JSON value; `1,2` and `{} {}` are not."""
    return f.coalesce(f.json_array_length(f.concat(f.lit("["), text, f.lit("]"))) == 1, f.lit(False))


def letter(pipeline: str, *fields: str) -> Column:
    """Encode a bad record as a dead letter: its place, its content, and the reason."""
    named = f.struct(
        *(f.col(name) for name in fields),
        f.col(RAW).cast("string").alias("value"),
        f.col(ERROR).alias("error"),
        f.lit(pipeline).alias("pipeline"),
    )
    return f.to_json(named)


def start_of(value: Column) -> Column:
    """Return the beginning of a message, on one line."""
    return f.regexp_replace(f.substring(value.cast("string"), 1, _SHOWN), r"[\r\n]", " ")


def _message_schema(text: str) -> StructType:
    wanted = columns(text)
    for field in wanted.fields:
        if field.name in (STREAM, OFFSET, RAW, ERROR):
            raise OptionError("schema", f"has a column {field.name!r}, which every record has; leave it out")
    return wanted


def columns(text: str) -> StructType:
    """Parse a schema: names and types, separated by commas."""
    try:
        found = StructType.fromDDL(text)
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise OptionError(
            "schema", f"{text!r} is not one ({first}); write columns as 'id long, at timestamp, name string'"
        ) from None
    assert isinstance(found, StructType)  # names and types give nothing else
    return found
