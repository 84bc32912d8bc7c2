"""`millstream pipeline profile`: statistics of streams, as a stream."""

from typing import Annotated

import typer

from millstream.cli.pipelines import options, running
from millstream.cli.pipelines.groups import Cluster, Pacing, Server, grouped


@grouped
def profile(
    streams: options.Streams,
    output: Annotated[str, typer.Argument(help="The stream to publish to.")] = "/_profile",
    schema: options.Schema = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(help="'NAME: CONDITION'; count other records. Repeatable.", metavar="RULE"),
    ] = None,
    checkpoint: options.Checkpoint = None,
    input_option: options.InputOptions = None,
    output_option: options.OutputOptions = None,
    *,
    pacing: Pacing,
    cluster: Cluster,
    server: Server,
) -> None:
    """Publish counts, bytes, lag and schema changes of streams. The pace is 10 seconds, or --every."""
    kept = options.needed(checkpoint)
    running.ready(cluster.remote)
    from millstream.spark.pipelines import profile as pipeline
    from millstream.spark.pipelines.inputs import look

    with running.failures():
        options.check(schema)
        rules = options.rules(expect, None, None)
        source = server.source(streams, input_option, pacing)
        written = server.output(output, output_option)
        look(source, ends=pacing.ends)
    running.run(
        "profile",
        lambda spark, show: pipeline.profile(
            spark,
            source,
            written,
            checkpoint=kept,
            schema=schema,
            rules=rules,
            pace=pacing.pace(pipeline.EVERY),
            on_progress=show,
        ),
        cluster,
        server,
        source=source,
        target=output,
    )
