"""`millstream pipeline dedup`: streams to a stream with each key once."""

from typing import Annotated

import typer

from millstream.cli.exits import Exit, Failure
from millstream.cli.pipelines import options, running
from millstream.cli.pipelines.groups import Cluster, Pacing, Server, grouped


@grouped
def dedup(
    streams: options.Streams,
    output: Annotated[str, typer.Argument(help="The stream to write.")],
    key: Annotated[
        list[str] | None,
        typer.Option(help="What is the same in duplicates: a column, or SQL. Repeatable.", metavar="SQL"),
    ] = None,
    schema: options.Schema = None,
    event_time: Annotated[
        str | None,
        typer.Option(help="The column with the event time; old keys are forgotten.", metavar="COLUMN"),
    ] = None,
    watermark: Annotated[
        str, typer.Option(help="How long a key is remembered, with --event-time.", metavar="TIME")
    ] = "1 hour",
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
    """Copy streams to one stream with each key once, exactly once.

    With --until-closed, the output is closed when all inputs have ended. Without --until-closed, --once or
    --every it runs forever, as soon as there is something to read.
    """
    kept = options.needed(checkpoint)
    if not key:
        raise Failure(Exit.USAGE, "--key is missing", "--key id --schema 'id string', or --key value")
    running.ready(cluster.remote)
    from millstream.spark.pipelines.inputs import look
    from millstream.spark.pipelines.records import BadRecords
    from millstream.spark.pipelines.stateful import dedup as pipeline

    with running.failures():
        options.check(schema)
        source = server.source(streams, input_option, pacing)
        written = server.output(output, output_option)
        bad = BadRecords(action=on_bad_record, stream=dead_letters)
        look(source, ends=pacing.ends)
    running.run(
        "dedup",
        lambda spark, show: pipeline.dedup(
            spark,
            source,
            written,
            key=key,
            checkpoint=kept,
            schema=schema,
            event_time=event_time,
            watermark=watermark,
            pace=pacing.pace(),
            bad=bad,
            on_progress=show,
        ),
        cluster,
        server,
        source=source,
        target=output,
    )
