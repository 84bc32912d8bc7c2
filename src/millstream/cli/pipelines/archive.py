"""`millstream pipeline archive`: streams to a table."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat
from millstream.cli.pipelines import options, running
from millstream.cli.targets import Profile, Token, Url


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
    until_closed: options.UntilClosed = False,
    once: options.Once = False,
    every: options.Every = None,
    checkpoint: options.Checkpoint = None,
    input_option: options.InputOptions = None,
    master: options.Master = None,
    remote: options.Remote = None,
    conf: options.Conf = None,
    metrics: options.Metrics = None,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Append streams to a partitioned table (Parquet, Delta or Iceberg), exactly once.

    The checkpoint is inside the table unless --checkpoint is given. Without --until-closed, --once or
    --every it runs forever, every 10 seconds.
    """
    options.one_pace(until_closed=until_closed, once=once, every=every)
    running.ready(remote)
    from millstream.spark.pipelines import archive as pipeline
    from millstream.spark.pipelines.inputs import Input, Pace, look
    from millstream.spark.pipelines.records import BadRecords
    from millstream.spark.tables.formats import MissingPackageError, archive_table

    if not (until_closed or once or every):
        every = "10 seconds"
    with running.failures():
        options.check(schema)
        try:
            archive_table(format, table)
        except MissingPackageError as problem:
            raise Failure(Exit.FAILED, str(problem), problem.hint) from None
        rules = options.rules(expect, expect_or_drop, expect_or_fail)
        there = targets.server(url, token, profile)
        source = Input(
            url=there.url,
            streams=streams,
            token=there.token,
            options=options.pairs(input_option, "--input-option"),
        )
        bad = BadRecords(action=on_bad_record, stream=dead_letters)
        look(source, ends=until_closed or once)
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
            pace=Pace(until_closed=until_closed, once=once, every=every),
            bad=bad,
            rules=rules,
            checkpoint=checkpoint,
            compact_files=compact_files,
            on_progress=show,
        ),
        master=master,
        remote=remote,
        conf=conf,
        metrics=metrics,
        output_format=output_format,
    )
