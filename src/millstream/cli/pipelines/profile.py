"""`millstream pipeline profile`: statistics of streams, as a stream."""

from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.output import OutputFormat
from millstream.cli.pipelines import options, running
from millstream.cli.targets import Profile, Token, Url


def profile(
    streams: options.Streams,
    output: Annotated[str, typer.Argument(help="The stream to publish to.")] = "/_profile",
    schema: options.Schema = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(help="'NAME: CONDITION'; count other records. Repeatable.", metavar="RULE"),
    ] = None,
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
    """Publish counts, bytes, lag and schema changes of streams. The pace is 10 seconds, or --every."""
    options.one_pace(until_closed=until_closed, once=once, every=every)
    kept = options.needed(checkpoint)
    running.ready(remote)
    from millstream.spark.pipelines import profile as pipeline
    from millstream.spark.pipelines.inputs import Input, Pace, look
    from millstream.spark.pipelines.outputs import Output

    if not (until_closed or once or every):
        every = pipeline.EVERY
    with running.failures():
        options.check(schema)
        rules = options.rules(expect, None, None)
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
        look(source, ends=until_closed or once)
    running.run(
        "profile",
        lambda spark, show: pipeline.profile(
            spark,
            source,
            written,
            checkpoint=kept,
            schema=schema,
            rules=rules,
            pace=Pace(until_closed=until_closed, once=once, every=every),
            on_progress=show,
        ),
        master=master,
        remote=remote,
        conf=conf,
        metrics=metrics,
        output_format=output_format,
    )
