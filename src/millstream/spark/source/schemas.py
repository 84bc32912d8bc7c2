"""Schemas: the source's own columns, and a user's schema.

Three columns are the source's own: `stream`, `offset` and `value`. `closed` and `timestamp` are too where
they are asked for, with `includeClosed` and `includeTimestamp`. Every other column of a user's schema is a
field of the messages, which must be JSON. Many messages have a field `timestamp`, so without its option that
is what a column of that name is.
"""

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from millstream.spark.json.fields import Fields
from millstream.spark.json.parsing import Formats
from millstream.spark.options import OptionError, SourceOptions

STREAM, OFFSET, VALUE, CLOSED, TIMESTAMP = "stream", "offset", "value", "closed", "timestamp"
FAILFAST, DROPMALFORMED = "failfast", "dropmalformed"
_MALFORMED = "_millstream_malformed"

_OWN: dict[str, tuple[DataType, ...]] = {
    STREAM: (StringType(),),
    OFFSET: (StringType(),),
    VALUE: (StringType(), BinaryType()),
    CLOSED: (BooleanType(),),
    TIMESTAMP: (TimestampType(),),
}

_SCALARS = (
    *(StringType, BooleanType, IntegralType, FractionalType, DecimalType),
    *(TimestampType, DateType, BinaryType),
)


COUNTED = StructType().add(STREAM, StringType(), nullable=False).add("rows", LongType(), nullable=False)
"""The columns with the option `counts`."""


class SchemaError(ValueError):
    """The source cannot provide this schema."""


def own_columns(options: SourceOptions, value: DataType) -> StructType:
    """Return the columns without a user's schema."""
    columns = [
        StructField(STREAM, StringType(), nullable=False),
        StructField(OFFSET, StringType(), nullable=False),
        StructField(VALUE, value, nullable=options.include_closed),
    ]
    if options.include_timestamp:
        columns.append(StructField(TIMESTAMP, TimestampType(), nullable=options.include_closed))
    if options.include_closed:
        columns.append(StructField(CLOSED, BooleanType(), nullable=False))
    return StructType(columns)


def checked(options: SourceOptions, schema: StructType) -> StructType:
    """Check a user's schema."""
    if options.counts:
        if schema.fieldNames() != COUNTED.fieldNames():
            raise SchemaError("with the option counts the columns are stream and rows; leave the schema out")
        return COUNTED
    for field in schema.fields:
        if field.name == CLOSED and not options.include_closed:
            raise OptionError("includeClosed", "is needed for the column closed; set it to true")
        if field.name in _OWN and (field.name != TIMESTAMP or options.include_timestamp):
            if field.dataType not in _OWN[field.name]:
                wanted = " or ".join(kind.simpleString() for kind in _OWN[field.name])
                raise SchemaError(
                    f"the column {field.name} is {wanted}, not {field.dataType.simpleString()}; "
                    "a field of that name can be taken from value with from_json"
                )
        elif field.name == options.column_name_of_corrupt_record:
            if field.dataType != StringType():
                raise SchemaError(f"the column {field.name} holds the text of messages; make it a string")
        else:
            _check_field(field, field.name)
    return schema


def fields_of(options: SourceOptions, schema: StructType) -> Fields | None:
    """Return the columns that are fields of messages; None if there are none."""
    if options.counts:
        return None
    corrupt = options.column_name_of_corrupt_record
    own = {name for name in _OWN if name != TIMESTAMP or options.include_timestamp}
    names = [name for name in schema.fieldNames() if name not in own]
    if not names:
        return None
    wanted = StructType([field for field in schema.fields if field.name in names and field.name != corrupt])
    drops = options.mode == DROPMALFORMED
    kept = corrupt if corrupt in names else (_MALFORMED if drops else None)
    formats = Formats(options.timestamp_format, options.date_format, options.time_zone)
    return Fields(
        to_arrow_schema(wanted, timezone="UTC"),
        kept,
        fails=options.mode == FAILFAST,
        drops=drops,
        formats=formats,
    )


def _check_field(field: StructField, path: str) -> None:
    if not field.nullable:
        raise SchemaError(f"the column {path} is NOT NULL, but a message may lack it; leave NOT NULL out")
    _check_type(field.dataType, path)


def _check_type(kind: DataType, path: str) -> None:
    if isinstance(kind, StructType):
        for field in kind.fields:
            _check_field(field, f"{path}.{field.name}")
    elif isinstance(kind, ArrayType):
        _check_type(kind.elementType, f"{path}[]")
    elif isinstance(kind, MapType):
        if kind.keyType != StringType():
            raise SchemaError(f"the keys of {path} are text; make it a map<string, ...>")
        _check_type(kind.valueType, f"{path}[]")
    elif not isinstance(kind, _SCALARS):
        raise SchemaError(
            f"the column {path} cannot be {kind.simpleString()}, which the source does not read; "
            "make it a string and convert it, for instance with to_timestamp_ntz"
        )
