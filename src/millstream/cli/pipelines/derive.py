"""`millstream pipeline derive`: streams to other streams."""

from typing import Annotated

import typer

from millstream.cli.exits import Exit, Failure
from millstream.cli.pipelines import options, running, transforms
from millstream.cli.pipelines.groups import Cluster, Pacing, Server, grouped


@grouped
def derive(
    streams: options.Streams,
    output: Annotated[
        str | None,
        typer.Argument(help="The stream to write; without it the column stream names each row's."),
    ] = None,
    sql: Annotated[str | None, typer.Option(help="'select ... from input', or @FILE.", metavar="SQL")] = None,
    function: Annotated[
        str | None,
        typer.Option(help="A function from a table to a table: MODULE:NAME.", metavar="MODULE:NAME"),
    ] = None,
    schema: options.Schema = None,
    event_time: Annotated[
        str | None, typer.Option(help="The column with the event time, for windows.", metavar="COLUMN")
    ] = None,
    watermark: Annotated[str, typer.Option(help="How late a record may be.", metavar="TIME")] = "1 minute",
    table: Annotated[
        str | None,
        typer.Option(help="Keep a live table: write the rows that change, with this type.", metavar="TYPE"),
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="A column of the live table's key; repeatable.", metavar="COLUMN")
    ] = None,
    closes: Annotated[
        str | None,
        typer.Option(help="With --until-closed: other streams to close at the end.", metavar="GLOB"),
    ] = None,
    expect: options.Expect = None,
    expect_or_drop: options.ExpectOrDrop = None,
    expect_or_fail: options.ExpectOrFail = None,
    on_bad_record: options.OnBadRecord = "dead-letter",
    dead_letters: options.DeadLetters = "_dead-letters",
    checkpoint: options.Checkpoint = None,
    input_option: options.InputOptions = None,
    output_option: options.OutputOptions = None,
    *,
    pacing: Pacing,
    cluster: Cluster,
    server: Server,
) -> None:
    """Derive streams from streams by SQL or a Python function, exactly once.

    With --until-closed, the output is closed when all inputs have ended. Without --until-closed, --once or
    --every it runs forever, as soon as there is something to read.
    """
    kept = options.needed(checkpoint)
    if (sql is None) == (function is None):
        raise Failure(
            Exit.USAGE, "One of --sql and --function is needed", "`--sql 'select * from input'` copies"
        )
    if (table is None) != (not key):
        raise Failure(Exit.USAGE, "--table and --key need each other", "--table sums --key product")
    running.ready(cluster.remote)
    from millstream.spark.pipelines import derive as pipeline
    from millstream.spark.pipelines.inputs import look
    from millstream.spark.pipelines.records import BadRecords
    from millstream.spark.pipelines.stateful.changes import LiveTable

    query = transforms.query(sql) if sql is not None else ""
    if function is not None:
        transforms.find(function)
    with running.failures():
        options.check(schema)
        rules = options.rules(expect, expect_or_drop, expect_or_fail)
        source = server.source(streams, input_option, pacing)
        written = server.output(output, output_option, closes)
        bad = BadRecords(action=on_bad_record, stream=dead_letters)
        look(source, ends=pacing.ends)
    running.run(
        "derive",
        lambda spark, show: pipeline.derive(
            spark,
            source,
            transforms.function(function) if function is not None else query,
            written,
            checkpoint=kept,
            schema=schema,
            event_time=event_time,
            watermark=watermark,
            table=LiveTable(type=table, key=tuple(key)) if table is not None and key else None,
            pace=pacing.pace(),
            bad=bad,
            rules=rules,
            on_progress=show,
        ),
        cluster,
        server,
        source=source,
        target=output,
    )
