"""`millstream pipeline archive`: streams to a table."""

from typing import Annotated

import typer

from millstream.cli.exits import Exit, Failure
from millstream.cli.pipelines import options, running
from millstream.cli.pipelines.groups import Cluster, Pacing, Server, grouped


@grouped
def archive(
    streams: options.Streams,
    table: Annotated[str, typer.Argument(help="A folder, or s3://...; created if missing.")],
    format: Annotated[
        str, typer.Option(help="parquet, delta or iceberg; the same for every run.", metavar="NAME")
    ] = "parquet",
    schema: options.Schema = None,
    event_time: Annotated[
        str | None,
        typer.Option(help="The column of the schema whose day is the column date.", metavar="COLUMN"),
    ] = None,
    partition_by: Annotated[
        str, typer.Option(help="Partition columns, separated by commas.", metavar="COLUMNS")
    ] = "date",
    compact_files: Annotated[
        int, typer.Option(min=0, help="Merge this many small files of a partition; 0 disables it.")
    ] = 20,
    expect: options.Expect = None,
    expect_or_drop: options.ExpectOrDrop = None,
    expect_or_fail: options.ExpectOrFail = None,
    on_bad_record: options.OnBadRecord = "dead-letter",
    dead_letters: options.DeadLetters = "_dead-letters",
    checkpoint: options.Checkpoint = None,
    input_option: options.InputOptions = None,
    *,
    pacing: Pacing,
    cluster: Cluster,
    server: Server,
) -> None:
    """Append streams to a partitioned table (Parquet, Delta or Iceberg), exactly once.

    The checkpoint is inside the table unless --checkpoint is given. Without --until-closed, --once or
    --every it runs forever, every 10 seconds.
    """
    running.ready(cluster.remote)
    from millstream.spark.pipelines import archive as pipeline
    from millstream.spark.pipelines.inputs import look
    from millstream.spark.pipelines.records import BadRecords
    from millstream.spark.tables.formats import MissingPackageError, archive_table

    with running.failures():
        options.check(schema)
        try:
            archive_table(format, table)
        except MissingPackageError as problem:
            raise Failure(Exit.FAILED, str(problem), problem.hint) from None
        rules = options.rules(expect, expect_or_drop, expect_or_fail)
        source = server.source(streams, input_option, pacing)
        bad = BadRecords(action=on_bad_record, stream=dead_letters)
        look(source, ends=pacing.ends)
    running.run(
        "archive",
        lambda spark, show: pipeline.archive(
            spark,
            source,
            table,
            format=format,
            schema=schema,
            event_time=event_time,
            partition_by=options.listed(partition_by),
            pace=pacing.pace("10 seconds"),
            bad=bad,
            rules=rules,
            checkpoint=checkpoint,
            compact_files=compact_files,
            on_progress=show,
        ),
        cluster,
        server,
        source=source,
        target=table,
    )
