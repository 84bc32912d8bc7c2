"""Workers: the Python processes in which Spark runs tasks."""

import functools
import gc


@functools.cache
def settle() -> None:
    """Hide what this worker has imported from the garbage collector, once.

    Spark collects after every task of a worker that it keeps, and walking the modules of pandas,
    pyarrow and Spark took 40 ms of each.
    """
    gc.freeze()
