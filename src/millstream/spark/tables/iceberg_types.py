"""Spark's types as Iceberg's, and back. Pure.

Iceberg has no integers of 8 and 16 bits, so these are stored with 32. Types that it does not have at all
are refused.
"""

from itertools import count

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import types as spark

from millstream.spark.options import OptionError

_PLAIN: dict[type[spark.DataType], iceberg.IcebergType] = {
    spark.BooleanType: iceberg.BooleanType(),
    spark.IntegerType: iceberg.IntegerType(),
    spark.LongType: iceberg.LongType(),
    spark.FloatType: iceberg.FloatType(),
    spark.DoubleType: iceberg.DoubleType(),
    spark.StringType: iceberg.StringType(),
    spark.BinaryType: iceberg.BinaryType(),
    spark.DateType: iceberg.DateType(),
    spark.TimestampType: iceberg.TimestamptzType(),
    spark.TimestampNTZType: iceberg.TimestampType(),
}
_BACK = {type(there): here for here, there in _PLAIN.items()}


def widened(kind: spark.DataType) -> spark.DataType:
    """Return the type as which Iceberg stores another."""
    match kind:
        case spark.ByteType() | spark.ShortType():
            return spark.IntegerType()
        case spark.ArrayType():
            return spark.ArrayType(widened(kind.elementType))
        case spark.MapType():
            return spark.MapType(widened(kind.keyType), widened(kind.valueType))
        case spark.StructType():
            return spark.StructType([spark.StructField(one.name, widened(one.dataType)) for one in kind])
        case _:
            return kind


def to_iceberg(columns: spark.StructType) -> Schema:
    """Return columns as a schema. Its ids are provisional: a table gives its own."""
    ids = count(1)

    def named(field: spark.StructField) -> iceberg.NestedField:
        return iceberg.NestedField(next(ids), field.name, converted(field.dataType, field.name))

    def converted(kind: spark.DataType, name: str) -> iceberg.IcebergType:
        match kind:
            case spark.DecimalType():
                return iceberg.DecimalType(kind.precision, kind.scale)
            case spark.ArrayType():
                return iceberg.ListType(next(ids), converted(kind.elementType, name), element_required=False)
            case spark.MapType():
                key = converted(kind.keyType, name)
                value = converted(kind.valueType, name)
                return iceberg.MapType(next(ids), key, next(ids), value, value_required=False)
            case spark.StructType():
                return iceberg.StructType(*map(named, kind.fields))
            case _ if type(kind) in _PLAIN:
                return _PLAIN[type(kind)]
            case _:
                raise OptionError(
                    "schema",
                    f"makes {name} a {kind.simpleString()}, which Iceberg tables do not have; "
                    "make it a string",
                )

    return Schema(*map(named, columns.fields))


def from_iceberg(schema: Schema) -> spark.StructType:
    """Return a table's schema as columns."""
    return _struct(schema.fields)


def _struct(fields: tuple[iceberg.NestedField, ...]) -> spark.StructType:
    return spark.StructType([spark.StructField(one.name, _from(one.field_type)) for one in fields])


def _from(kind: iceberg.IcebergType) -> spark.DataType:
    match kind:
        case iceberg.DecimalType():
            return spark.DecimalType(kind.precision, kind.scale)
        case iceberg.ListType():
            return spark.ArrayType(_from(kind.element_type))
        case iceberg.MapType():
            return spark.MapType(_from(kind.key_type), _from(kind.value_type))
        case iceberg.StructType():
            return _struct(kind.fields)
        case _ if type(kind) in _BACK:
            return _BACK[type(kind)]()
        case _:
            raise OptionError("table", f"has a column of the type {kind}, which Spark does not have")
