"""Running a pipeline as a command: start Spark, show progress, map failures to exit codes.

Progress is an updated line on a terminal, and lines of JSON elsewhere: one for each batch, and a last one
with `"event": "done"`.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure, explain, formatted
from millstream.cli.guards import say
from millstream.cli.output import StandardOutput
from millstream.cli.pipelines.groups import Cluster, Server
from millstream.cli.pipelines.options import pairs
from millstream.cli.progress import activity
from millstream.cli.units import counted, duration, number, size
from millstream.spark.pipelines.starting import NotReadyError, check_installed, check_java, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from millstream.client.core.errors import MillstreamError
    from millstream.spark.pipelines.inputs import Input
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

Show = Callable[["Progress"], None]
Pipeline = Callable[["SparkSession", Show], "Progress"]


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
    server: Server,
    *,
    source: "Input | str",
    target: str | None,
) -> None:
    """Start Spark, run a pipeline to its end, and report the result."""
    settings = pairs(cluster.conf, "--conf")
    let_workers_find_modules()
    output = StandardOutput(cluster.output_format)
    with (
        _ended_by_term(),
        _exposed(cluster.metrics, verb) as expose,
        _reported(cluster.report, verb, server, source, target) as report,
        activity("starting Spark ...") as announce,
    ):
        spark = start(f"millstream {verb}", master=cluster.master, remote=cluster.remote, settings=settings)
        try:
            with failures():
                done = pipeline(spark, _shown(output, verb, announce, expose, report))
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
def _exposed(place: str | None, verb: str) -> Iterator[Show]:
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


@contextlib.contextmanager
def _reported(
    stream: str | None, verb: str, server: Server, source: "Input | str", target: str | None
) -> Iterator[Show]:
    """Report to a stream while a pipeline runs, if that is asked."""
    if stream is None:
        yield lambda progress: None
        return
    from millstream.spark.pipelines.inputs import refuse_loops
    from millstream.spark.reports import Reports

    def complain(problem: "MillstreamError") -> None:
        why = explain(problem)
        what = f"It runs, but cannot report to {stream}: {why.message}"
        say(formatted(f"pipeline {verb}", Failure(why.code, what, why.hint)))

    if not isinstance(source, str):
        with failures():
            refuse_loops(source, [stream])
        source = source.streams
    there = targets.server(server.url, server.token, server.profile)
    with Reports(
        there.url,
        pipeline=verb,
        source=source,
        target=target,
        stream=stream,
        token=there.token,
        on_problem=complain,
    ) as reports:
        yield reports


@contextlib.contextmanager
def _ended_by_term() -> Iterator[None]:
    """Let SIGTERM end the pipeline in good order, which reports it; the process still ends by the signal."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    has_come = False

    def stop(number: int, frame: object) -> None:
        nonlocal has_come
        has_come = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends it at once
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if has_come else before)
        if has_come:  # whatever went wrong on the way out, as Spark may have got the signal, too
            os.kill(os.getpid(), signal.SIGTERM)


def _shown(output: StandardOutput, verb: str, announce: Callable[[str], None], *others: Show) -> Show:
    def show(progress: "Progress") -> None:
        for report in others:
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
