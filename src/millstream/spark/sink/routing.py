"""Routing: which rows go to which stream. Rows of one stream keep their order."""

from typing import NamedTuple

import numpy
import pyarrow

from millstream.spark.option_values import stream_name
from millstream.spark.sink.columns import STREAM, RowError


class Routed(NamedTuple):
    """The rows of a batch, those of one stream together; runs are their names, where they begin and end."""

    rows: pyarrow.RecordBatch
    runs: list[tuple[str, int, int]]


def by_stream(batch: pyarrow.RecordBatch, fixed: str | None) -> Routed:
    """Sort a batch by its column `stream`, unless all rows go to one fixed stream."""
    if not batch.num_rows:
        return Routed(batch, [])
    if fixed is not None:
        return Routed(batch, [(fixed, 0, batch.num_rows)])
    encoded = batch.column(batch.schema.get_field_index(STREAM)).dictionary_encode()
    names = [stream_name(name) for name in encoded.dictionary.to_pylist()]
    if encoded.null_count or "" in names:
        raise RowError("a row names no stream; give each row one in the column stream")
    if len(names) == 1:
        return Routed(batch, [(names[0], 0, batch.num_rows)])
    codes = encoded.indices.to_numpy()
    order = numpy.argsort(codes, kind="stable")
    ends = numpy.cumsum(numpy.bincount(codes, minlength=len(names))).tolist()
    return Routed(batch.take(pyarrow.array(order)), list(zip(names, [0, *ends[:-1]], ends, strict=True)))
