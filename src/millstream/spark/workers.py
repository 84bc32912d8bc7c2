"""Workers: the Python processes in which Spark runs tasks."""

import functools
import gc


@functools.cache
def settle() -> None:
    """Exclude the modules that this worker has imported from garbage collection, once.

    Spark runs a collection after every task of a reused worker, and traversing the modules of pandas,
    pyarrow and Spark took 40 ms each time.
    """
    gc.freeze()
