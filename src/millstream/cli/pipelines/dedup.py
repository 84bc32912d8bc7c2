"""`millstream pipeline dedup`: streams to a stream with each key once."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat
from millstream.cli.pipelines import options, running
from millstream.cli.targets import Profile, Token, Url


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
    until_closed: options.UntilClosed = False,
    once: options.Once = False,
    every: options.Every = None,
    checkpoint: options.Checkpoint = None,
    input_option: options.InputOptions = None,
    output_option: options.OutputOptions = None,
    master: options.Master = None,
    remote: options.Remote = None,
    conf: options.Conf = None,
    metrics: options.Metrics = None,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Copy streams to one stream with each key once, exactly once.

    With --until-closed, the output is closed when all inputs have ended. Without --until-closed, --once or
    --every it runs forever, as soon as there is something to read.
    """
    options.one_pace(until_closed=until_closed, once=once, every=every)
    kept = options.needed(checkpoint)
    if not key:
        raise Failure(Exit.USAGE, "--key is missing", "--key id --schema 'id string', or --key value")
    running.ready(remote)
    from millstream.spark.pipelines.inputs import Input, Pace, look
    from millstream.spark.pipelines.outputs import Output
    from millstream.spark.pipelines.records import BadRecords
    from millstream.spark.pipelines.stateful import dedup as pipeline

    with running.failures():
        options.check(schema)
        there = targets.server(url, token, profile)
        source = Input(
            url=there.url,
            streams=streams,
            token=there.token,
            options=options.pairs(input_option, "--input-option"),
        )
        written = Output(
            url=there.url,
            stream=output,
            token=there.token,
            options=options.pairs(output_option, "--output-option"),
        )
        bad = BadRecords(action=on_bad_record, stream=dead_letters)
        look(source, ends=until_closed or once)
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
            pace=Pace(until_closed=until_closed, once=once, every=every),
            bad=bad,
            on_progress=show,
        ),
        master=master,
        remote=remote,
        conf=conf,
        metrics=metrics,
        output_format=output_format,
    )
