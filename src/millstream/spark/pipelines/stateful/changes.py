"""Changes: a result that keeps changing, as a stream of changes that readers apply to a table of their own.

A running aggregate has one row for each key, and each batch gives the rows that it changed (Spark's update
mode). Each becomes a change of the State Protocol: an `update`, which stores a row whether its key was there
or not, or a `delete`, where the column `_deleted` says so.

    {"type": "sums", "key": "tea", "value": {"product": "tea", "n": 9}, "headers": {"operation": "update"}}
"""

from collections.abc import Callable

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType

from millstream.spark.options import OptionError
from millstream.spark.pipelines.inputs import FORMAT
from millstream.spark.pipelines.outputs import Output
from millstream.spark.pipelines.records import ERROR
from millstream.spark.pipelines.transactions import checkpoint_id
from millstream.spark.sink.columns import VALUE

DELETED = "_deleted"
_SINK = "table"
_TO_JSON = {"ignoreNullFields": "false"}


class LiveTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that readers keep: the type of its rows, and the columns that are its key."""

    type: str
    key: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.type:
            raise OptionError("table", "is empty; name the type of its rows")
        if not self.key:
            raise OptionError("key", "is missing; name the columns that tell the table's rows apart")


def as_changes(rows: DataFrame, table: LiveTable) -> DataFrame:
    """Return a change for each row; one without a key is bad."""
    for name in table.key:
        if name not in rows.columns:
            raise OptionError("key", f"names {name!r}; there are {', '.join(rows.columns)}")
    fields = [f.col(f"`{name}`") for name in rows.columns if name != DELETED]
    removed = f.lit(False)
    if DELETED in rows.columns:
        if not isinstance(rows.schema[DELETED].dataType, BooleanType):
            raise OptionError(DELETED, "is not a boolean; it says whether a row is gone")
        removed = f.coalesce(f.col(DELETED), f.lit(False))
    change = f.struct(
        f.lit(table.type).alias("type"),
        _key(table).alias("key"),
        f.when(~removed, f.struct(*fields)).alias("value"),
        f.struct(f.when(removed, "delete").otherwise("update").alias("operation")).alias("headers"),
    )
    error = f.when(f.coalesce(_key(table), f.lit("")) == "", "has no key")
    return rows.select(f.to_json(change, _TO_JSON).alias(VALUE), error.alias(ERROR))


def writing(output: Output, checkpoint: str) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch`: the sink takes no update mode, since it only appends."""

    def write(batch: DataFrame, number: int) -> None:
        ids = {
            "txnAppId": checkpoint_id(batch.sparkSession, checkpoint),
            "txnVersion": str(number),
            "sinkId": _SINK,
        }
        batch.write.format(FORMAT).mode("append").options(**output.sink(), **ids).save()

    return write


def _key(table: LiveTable) -> Column:
    """Return the key as text: of several columns an array, so that no two keys are spelt alike."""
    columns = [f.col(f"`{name}`").cast("string") for name in table.key]
    if len(columns) == 1:
        return columns[0]
    some = f.lit(True)
    for column in columns:
        some = some & column.isNotNull()
    return f.when(some, f.to_json(f.array(*columns)))
