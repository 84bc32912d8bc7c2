"""What the modules of this package hand to each other."""

import msgspec
import numpy
import numpy.typing
import pyarrow

Message = bytes | msgspec.Raw
"""One message of a stream, byte for byte. A `Raw` is a view into a response, so nothing is copied."""

Numbers = numpy.typing.NDArray[numpy.int64]

ColumnArrays = dict[str, pyarrow.Array]
"""Parsed messages: an Arrow array for each column, by name."""
