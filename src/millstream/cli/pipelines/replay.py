"""`millstream pipeline replay`: a table to streams."""

from typing import Annotated

import typer

from millstream.cli.exits import Exit, Failure
from millstream.cli.pipelines import options, running
from millstream.cli.pipelines.groups import Cluster, Server, grouped


@grouped
def replay(
    table: Annotated[
        str, typer.Argument(help="The table's path; '-' for formats without one, such as jdbc.")
    ],
    output: Annotated[
        str | None,
        typer.Argument(help="The stream to write; without it the column stream names each row's."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="parquet, delta, iceberg, csv, json, orc, text, jdbc, or any other of Spark's.",
            metavar="NAME",
        ),
    ] = "parquet",
    schema: options.Schema = None,
    columns: Annotated[
        str, typer.Option(help="Columns to select, separated by commas; default: all.", metavar="COLUMNS")
    ] = "",
    order_by: Annotated[
        str, typer.Option(help="Columns to sort by, separated by commas.", metavar="COLUMNS")
    ] = "",
    stream_by: Annotated[
        str | None,
        typer.Option(help="SQL that names each row's stream: \"'users/' || id\".", metavar="SQL"),
    ] = None,
    on_bad_record: options.OnBadRecord = "dead-letter",
    dead_letters: options.DeadLetters = "_dead-letters",
    once: options.Once = False,
    every: options.Every = None,
    checkpoint: options.Checkpoint = None,
    close: Annotated[bool, typer.Option("--close", help="Close the output after the last row.")] = False,
    closes: Annotated[
        str | None, typer.Option(help="With --close: other streams to close.", metavar="GLOB")
    ] = None,
    input_option: options.InputOptions = None,
    output_option: options.OutputOptions = None,
    *,
    cluster: Cluster,
    server: Server,
) -> None:
    """Write a table to streams, exactly once. After an interruption it resumes where it stopped.

    It ends after the existing rows (--once), unless --every makes it follow new files.
    """
    options.one_pace(until_closed=False, once=once, every=every)
    kept = options.needed(checkpoint)
    running.ready(cluster.remote)
    from millstream.spark.pipelines import replay as pipeline
    from millstream.spark.pipelines.inputs import Pace
    from millstream.spark.pipelines.records import BadRecords
    from millstream.spark.tables.formats import MissingPackageError

    with running.failures():
        options.check(schema)
        read = pipeline.TableInput(
            format=format,
            path=None if table == "-" else table,
            schema=schema,
            options=options.pairs(input_option, "--input-option"),
            columns=options.listed(columns),
            order_by=options.listed(order_by),
            stream_by=stream_by,
        )
        if cluster.master is None and cluster.remote is None:
            try:
                pipeline.look(read)
            except MissingPackageError as problem:
                raise Failure(Exit.FAILED, str(problem), problem.hint) from None
        written = server.output(output, output_option, closes)
        bad = BadRecords(action=on_bad_record, stream=dead_letters)
    running.run(
        "replay",
        lambda spark, show: pipeline.replay(
            spark,
            read,
            written,
            checkpoint=kept,
            pace=Pace(every=every) if every else Pace(once=True),
            bad=bad,
            closes=close,
            on_progress=show,
        ),
        cluster,
        server,
        source=format if table == "-" else table,
        target=output,
    )
