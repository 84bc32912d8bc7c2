"""Routing: which rows go to which stream. Rows of one stream keep their order."""

from collections.abc import Iterator

import numpy
import pyarrow

from millstream.spark.option_values import stream_name
from millstream.spark.sink.columns import STREAM, RowError


def by_stream(batch: pyarrow.RecordBatch, fixed: str | None) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    """Split a batch by its column `stream`, unless all rows go to one fixed stream."""
    if not batch.num_rows:
        return
    if fixed is not None:
        yield fixed, batch
        return
    encoded = batch.column(batch.schema.get_field_index(STREAM)).dictionary_encode()
    names = [stream_name(name) for name in encoded.dictionary.to_pylist()]
    if encoded.null_count or "" in names:
        raise RowError("a row names no stream; give each row one in the column stream")
    if len(names) == 1:
        yield names[0], batch
        return
    codes = encoded.indices.to_numpy()
    order = numpy.argsort(codes, kind="stable")
    ends = numpy.cumsum(numpy.bincount(codes, minlength=len(names)))
    sorted_rows = batch.take(pyarrow.array(order))
    begin = 0
    for name, end in zip(names, ends.tolist(), strict=True):
        yield name, sorted_rows.slice(begin, end - begin)
        begin = end
