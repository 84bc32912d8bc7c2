"""Which worker of pytest-xdist runs which tests, and in which order.

Starting Spark takes longer than most tests that use it. So tests that share one go to the same worker:
those of pipelines to one, all others to another, since either half takes as long as everything else takes
the remaining workers. All other tests are handed out file by file, because what a file's tests share (a
server, a browser, thousands of streams) would otherwise be started in each worker. Long files begin first
and short ones end the run, so that all workers finish at about the same time.

There are two workers more than there are cores: many tests wait, for a timeout, a process or a batch. With
one more, two cores were busy for about two thirds of a run.
"""

import os

from xdist.scheduler import LoadScopeScheduling

MAX_WORKERS = 4
SHARED_SPARK = ("tests/spark/pipelines/", "tests/spark/")
# Tests in that folder that start their own Spark, or none.
OWN_PROCESSES = (
    "tests/spark/elsewhere/",
    "tests/spark/pipelines/test_processes.py",
    "tests/spark/sink/test_kills.py",
    "tests/spark/sink/test_memory.py",
    "tests/spark/test_faults.py",
    "tests/spark/test_memory.py",
)
# By the minutes they take together; whatever is not named comes between the two.
FIRST = (
    "tests/spark/",
    "tests/examples/",
    "tests/postgres/",
    "tests/docs/",
    "tests/conformance/",
    "tests/public/",
    "tests/crash/",
    "tests/browser/",
    "tests/big/",
)
LAST = ("tests/properties/", "tests/engines/", "tests/unit/")


def workers() -> int:
    """Count the workers for `--numprocesses auto`."""
    return min((os.cpu_count() or 1) + 2, MAX_WORKERS)


def group(nodeid: str) -> str:
    """Name the tests that must run in one worker together with this one."""
    path = nodeid.partition("::")[0]
    if path.startswith(OWN_PROCESSES):
        return path
    return next((folder for folder in SHARED_SPARK if path.startswith(folder)), path)


def rank(nodeid: str) -> int:
    """Sort key: what should begin earlier has the smaller one."""
    found = group(nodeid)
    if found in SHARED_SPARK:
        return SHARED_SPARK.index(found) - len(SHARED_SPARK)
    for place, folder in enumerate(FIRST):
        if found.startswith(folder):
            return place
    return len(FIRST) + 1 + next((at for at, folder in enumerate(LAST, 1) if found.startswith(folder)), 0)


class Scheduling(LoadScopeScheduling):
    """Hands out one group after the other, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
