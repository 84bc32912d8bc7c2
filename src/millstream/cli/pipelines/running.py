"""Running a pipeline as a command: start Spark, show progress, map failures to exit codes.

Progress is an updated line on a terminal, and lines of JSON elsewhere: one for each batch, and a last one
with `"event": "done"`.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.cli.exits import Exit, Failure
from millstream.cli.output import StandardOutput
from millstream.cli.pipelines.groups import Cluster
from millstream.cli.pipelines.options import pairs
from millstream.cli.progress import activity
from millstream.cli.units import counted, duration, number, size
from millstream.spark.pipelines.starting import NotReadyError, check_installed, check_java, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from millstream.spark.pipelines.running import Progress

_CODES: Final = {
    "OptionError": (Exit.USAGE, ""),
    "SchemaError": (Exit.USAGE, ""),
    "ParseException": (Exit.USAGE, "Is the SQL right?"),
    "AnalysisException": (Exit.USAGE, "Are the names of columns and tables right?"),
    "ArchiveError": (Exit.CONFLICT, ""),
    "TableReadError": (Exit.CONFLICT, ""),
    "BadRecordError": (Exit.BAD_INPUT, "--on-bad-record dead-letter sets such records aside and continues"),
    "ExpectationError": (Exit.BAD_INPUT, "--expect sets such records aside and continues"),
    "LateRecordError": (Exit.BAD_INPUT, "A longer --watermark waits for them"),
    "RowError": (Exit.BAD_INPUT, ""),
    "NothingToReadError": (Exit.NOT_FOUND, "`millstream list` shows what there is"),
    "StreamNotFoundError": (Exit.NOT_FOUND, "`millstream list` shows what there is"),
    "DataLossError": (Exit.NOT_FOUND, "--input-option failOnDataLoss=false continues without it"),
    "TransportError": (Exit.UNREACHABLE, "Run the same command again to resume"),
    "UnauthorizedError": (Exit.NOT_ALLOWED, "Give a token with --token or MILLSTREAM_TOKEN"),
}

Pipeline = Callable[["SparkSession", Callable[["Progress"], None]], "Progress"]


def ready(remote: str | None) -> None:
    """Check what Spark needs, before Spark is loaded."""
    try:
        check_installed(connects=remote is not None)
        if remote is None:
            check_java()
    except NotReadyError as problem:
        raise Failure(Exit.FAILED, str(problem), problem.hint) from None


def run(
    verb: str,
    pipeline: Pipeline,
    cluster: Cluster,
) -> None:
    """Start Spark, run a pipeline to its end, and report the result."""
    settings = pairs(cluster.conf, "--conf")
    let_workers_find_modules()
    output = StandardOutput(cluster.output_format)
    with _exposed(cluster.metrics, verb) as report, activity("starting Spark ...") as announce:
        spark = start(f"millstream {verb}", master=cluster.master, remote=cluster.remote, settings=settings)
        try:
            with failures():
                done = pipeline(spark, _shown(output, verb, announce, report))
        finally:
            if cluster.remote is None:
                spark.stop()
    sentence = f"{verb}: {_told(done)}, in {duration(done.seconds)}."
    output.result(sentence, {"event": "done", "pipeline": verb, **msgspec.to_builtins(done)})


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Map errors of Spark and the pipelines to failures of the command."""
    from pyspark.errors import PySparkException

    from millstream.spark.pipelines.running import PipelineError, explained

    try:
        yield
    except PipelineError as error:
        raise _failure(error.kind, str(error)) from None
    except PySparkException as error:
        found = explained(str(error))
        named = found.kind if found.kind in _CODES else type(error).__name__
        raise _failure(named, str(found) if found.kind in _CODES else _first_line(error)) from None
    except ValueError as error:
        if type(error).__name__ not in _CODES:
            raise
        raise _failure(type(error).__name__, str(error)) from None


def _failure(kind: str, message: str) -> Failure:
    code, hint = _CODES.get(kind, (Exit.FAILED, "Run the same command again to resume"))
    return Failure(code, message, hint)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


@contextlib.contextmanager
def _exposed(place: str | None, verb: str) -> Iterator[Callable[["Progress"], None]]:
    """Expose metrics while a pipeline runs, if that is asked."""
    if place is None:
        yield lambda progress: None
        return
    from millstream.spark.metrics import Exposition

    with failures():
        exposition = Exposition(place)
    with exposition:
        exposition.begin(verb, {"pipeline": verb})
        try:
            yield lambda progress: exposition.update(verb, progress)
        finally:
            exposition.end(verb)


def _shown(
    output: StandardOutput,
    verb: str,
    announce: Callable[[str], None],
    report: Callable[["Progress"], None],
) -> Callable[["Progress"], None]:
    def show(progress: "Progress") -> None:
        report(progress)
        if output.is_text:
            announce(f"{verb}: {_told(progress)}")
        else:
            fields: dict[str, Any] = msgspec.to_builtins(progress)
            output.record({"event": "batch", "pipeline": verb, **fields})

    return show


def _told(progress: "Progress") -> str:
    rows = "" if progress.rows is None else f"{counted(progress.rows, 'row', 'rows')} in "
    parts = [f"{rows}{counted(progress.batches, 'batch', 'batches')}"]
    if progress.dead_letters:
        parts.append(f"{number(progress.dead_letters)} of them dead letters")
    if progress.late_rows:
        parts.append(f"{counted(progress.late_rows, 'row', 'rows')} late")
    if progress.duplicates:
        parts.append(counted(progress.duplicates, "duplicate", "duplicates"))
    for name, count in progress.expectations.items():
        if count:
            parts.append(f"{name} unmet by {number(count)}")
    if progress.lag_bytes:
        parts.append(f"{size(progress.lag_bytes)} behind")
    return ", ".join(parts)


def let_workers_find_modules() -> None:
    """Let Spark's workers import modules from the current folder, like this process."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([here, *others]))
